"""Everything a run depends on, as frozen dataclasses read from and written to TOML.

Defaults are the paper's FC100 5-shot setting; a recipe is a short diff from them. Each class checks
itself, and every error names the key.
"""

import dataclasses
import tomllib
from dataclasses import dataclass, field
from typing import Any, Self

from tadam.errors import UserError
from tadam.toml_tables import format_value, parse_value, updated


def _require(ok: bool, key: str, rule: str, value: object) -> None:
    if not ok:
        raise UserError(f"{key} must be {rule}, got {value!r}")


def _require_choice(key: str, value: str, choices: tuple[str, ...]) -> None:
    _require(value in choices, key, "one of " + ", ".join(choices), value)


@dataclass(frozen=True)
class DataConfig:
    name: str = "fc100"  # a name of the catalogue, or folder:PATH
    image_size: int = 0  # side in pixels; 0 leaves it to the data set
    split_seed: int = 0  # how folder:PATH deals its classes to train, val and test

    def __post_init__(self) -> None:
        readable = not any("\ud800" <= letter <= "\udfff" for letter in self.name)
        _require(readable, "data.name", "valid Unicode", self.name)
        ok = self.image_size == 0 or 16 <= self.image_size <= 256
        _require(ok, "data.image_size", "0 or between 16 and 256", self.image_size)
        _require(self.split_seed >= 0, "data.split_seed", "at least 0", self.split_seed)


@dataclass(frozen=True)
class EpisodeConfig:
    way: int = 5  # classes in a task
    shot: int = 5  # support images of a class
    queries: int = 32  # query images of a task, all classes together
    tasks: int = 2  # tasks in a training step
    balanced_queries: bool = False  # the paper draws queries from the pooled remainder

    def __post_init__(self) -> None:
        _require(self.way >= 2, "episode.way", "at least 2", self.way)
        for name in ("shot", "queries", "tasks"):
            _require(getattr(self, name) >= 1, f"episode.{name}", "at least 1", getattr(self, name))


@dataclass(frozen=True)
class AugmentConfig:
    flip: bool = False  # mirror each image with probability 1/2
    crop_padding: int = 0  # shift each image by up to this many pixels in x and in y
    brightness: float = 0.0  # multiply by a factor from 1 ± this; likewise the next two
    contrast: float = 0.0
    saturation: float = 0.0
    rotated_classes: bool = False  # a class turned by 90, 180 or 270 degrees is another class

    def __post_init__(self) -> None:
        ok = 0 <= self.crop_padding <= 64
        _require(ok, "augment.crop_padding", "between 0 and 64", self.crop_padding)
        for name in ("brightness", "contrast", "saturation"):
            value = getattr(self, name)
            _require(0 <= value < 1, f"augment.{name}", "at least 0 and below 1", value)


@dataclass(frozen=True)
class BackboneConfig:
    name: str = "resnet12"  # resnet12, conv4, efficientnet_lite0 (frozen), or pixels (no network)
    width: int = 64  # filters of the first block
    pools: int = 3  # blocks of ResNet-12 that end in a max-pool: paper's text 4, authors' code 3
    activation: str = "swish"  # swish or relu
    embedding: str = "pooled"  # pooled or flat; ResNet-12 is always pooled
    initialisation: str = "paper"  # paper or he
    statistics: str = "batch"  # batch norm in training: over a process's batch, or each task's own
    mirrored: bool = False  # outside training, an image is the mean of itself and its mirror image

    def __post_init__(self) -> None:
        names = ("resnet12", "conv4", "efficientnet_lite0", "pixels")
        _require_choice("backbone.name", self.name, names)
        _require(1 <= self.width <= 1024, "backbone.width", "between 1 and 1024", self.width)
        _require(0 <= self.pools <= 4, "backbone.pools", "between 0 and 4", self.pools)
        _require_choice("backbone.activation", self.activation, ("swish", "relu"))
        _require_choice("backbone.embedding", self.embedding, ("pooled", "flat"))
        ok = self.name != "resnet12" or self.embedding == "pooled"
        _require(ok, "backbone.embedding", "pooled for resnet12", self.embedding)
        _require_choice("backbone.initialisation", self.initialisation, ("paper", "he"))
        _require_choice("backbone.statistics", self.statistics, ("batch", "task"))


@dataclass(frozen=True)
class MetricConfig:
    distance: str = "euclidean"  # euclidean, sqeuclidean or cosine
    alpha: float = 1.0  # the scale, or where learning it starts
    learn_alpha: bool = False

    def __post_init__(self) -> None:
        _require_choice("metric.distance", self.distance, ("euclidean", "sqeuclidean", "cosine"))
        _require(0 < self.alpha < 1e6, "metric.alpha", "above 0 and below 1e6", self.alpha)


@dataclass(frozen=True)
class ConditioningConfig:
    enabled: bool = True
    layers: str = "all"  # all, pre_pool (3, 6, 9, 12) or last
    representation: str = (
        "mean"  # mean of the prototypes, or mean_std: their standard deviation too
    )

    def __post_init__(self) -> None:
        _require_choice("conditioning.layers", self.layers, ("all", "pre_pool", "last"))
        _require_choice("conditioning.representation", self.representation, ("mean", "mean_std"))


@dataclass(frozen=True)
class AuxiliaryConfig:
    enabled: bool = True
    batch_size: int = 64
    probability: float = 0.9  # of an auxiliary step at the start ...
    decay: float = 0.9  # ... multiplied by this ...
    decay_steps: int = 20  # ... this many times over the run

    def __post_init__(self) -> None:
        _require(self.batch_size >= 2, "auxiliary.batch_size", "at least 2", self.batch_size)
        for name in ("probability", "decay"):
            value = getattr(self, name)
            _require(0 <= value <= 1, f"auxiliary.{name}", "between 0 and 1", value)
        _require(self.decay_steps >= 1, "auxiliary.decay_steps", "at least 1", self.decay_steps)


@dataclass(frozen=True)
class OptimiserConfig:
    name: str = "sgd"  # the paper's; or adamw, which gets further in a short run
    learning_rate: float = 0.1
    momentum: float = 0.9  # of sgd
    weight_decay: float = 5e-4  # convolutions and TEN weights; none on batch norm, biases, head
    multiplier_decay: float = 0.01  # gamma0 and beta0
    clip: str = "parameter"  # the norm of each parameter's gradient; or global, or none
    clip_norm: float = 1.0
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        _require_choice("optimiser.name", self.name, ("sgd", "adamw"))
        _require(self.learning_rate > 0, "optimiser.learning_rate", "above 0", self.learning_rate)
        _require(self.clip_norm > 0, "optimiser.clip_norm", "above 0", self.clip_norm)
        _require_choice("optimiser.clip", self.clip, ("parameter", "global", "none"))
        for name in ("momentum", "label_smoothing"):
            value = getattr(self, name)
            _require(0 <= value < 1, f"optimiser.{name}", "at least 0 and below 1", value)
        for name in ("weight_decay", "multiplier_decay"):
            _require(
                getattr(self, name) >= 0, f"optimiser.{name}", "at least 0", getattr(self, name)
            )


@dataclass(frozen=True)
class ScheduleConfig:
    episodes: int = 10_000  # training steps T
    kind: str = "step"  # step, or cosine: smoothly to zero
    drops: tuple[float, ...] = (0.5, 0.75, 1.0)  # where, as a share of T, step divides the rate ...
    drop_factor: float = 10.0  # ... by this
    warmup: int = 0  # steps over which the rate rises linearly from zero

    def __post_init__(self) -> None:
        _require(self.episodes >= 1, "schedule.episodes", "at least 1", self.episodes)
        _require_choice("schedule.kind", self.kind, ("step", "cosine"))
        _require(all(0 < d <= 1 for d in self.drops), "schedule.drops", "in (0, 1]", self.drops)
        _require(self.drop_factor >= 1, "schedule.drop_factor", "at least 1", self.drop_factor)
        _require(self.warmup >= 0, "schedule.warmup", "at least 0", self.warmup)


@dataclass(frozen=True)
class ValidationConfig:
    every: int = 500  # steps
    tasks: int = 200
    queries: int = 100
    way: int = 0  # classes in a task; 0 for as many as in training
    seed: int = 1_000_003  # the same tasks at every validation, whatever the run's seed
    patience: int = 0  # stop after this many validations without a new best; 0 never stops

    def __post_init__(self) -> None:
        for name in ("every", "tasks", "queries"):
            value = getattr(self, name)
            _require(value >= 1, f"validation.{name}", "at least 1", value)
        ok = self.way == 0 or self.way >= 2
        _require(ok, "validation.way", "0 or at least 2", self.way)
        _require(self.patience >= 0, "validation.patience", "at least 0", self.patience)
        _require(self.seed >= 0, "validation.seed", "at least 0", self.seed)


@dataclass(frozen=True)
class RunConfig:
    seed: int = 0
    log_every: int = 20  # steps
    checkpoint_every: int = 200  # steps
    max_loss: float = 1000.0  # a loss beyond this, or not a number, stops the run
    tensorboard: bool = False

    def __post_init__(self) -> None:
        _require(0 <= self.seed < 2**63, "run.seed", "between 0 and 2^63 - 1", self.seed)
        for name in ("log_every", "checkpoint_every"):
            _require(getattr(self, name) >= 1, f"run.{name}", "at least 1", getattr(self, name))
        _require(self.max_loss > 0, "run.max_loss", "above 0", self.max_loss)


@dataclass(frozen=True)
class Config:
    """A whole recipe."""

    data: DataConfig = field(default_factory=DataConfig)
    episode: EpisodeConfig = field(default_factory=EpisodeConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    backbone: BackboneConfig = field(default_factory=BackboneConfig)
    metric: MetricConfig = field(default_factory=MetricConfig)
    conditioning: ConditioningConfig = field(default_factory=ConditioningConfig)
    auxiliary: AuxiliaryConfig = field(default_factory=AuxiliaryConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        if self.conditioning.enabled and self.backbone.name == "pixels":
            raise UserError(
                "conditioning.enabled must be false with backbone.name 'pixels': "
                "it has no layer to condition"
            )

    @classmethod
    def from_toml(cls, text: str, source: str) -> Self:
        """Reads a recipe; `source` names it in errors."""
        try:
            tables = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{source} is not valid TOML: {error}") from None
        try:
            return cls().updated(tables)
        except UserError as error:
            raise UserError(f"{source}: {error}") from None

    def updated(self, tables: dict[str, Any]) -> Self:
        """A copy with the given tables' keys replaced."""
        return updated(self, tables)

    def with_settings(self, settings: list[str]) -> Self:
        """A copy with `key=value` settings such as `backbone.width=16`; a later one wins.

        They are checked together: `backbone.name=pixels` is no error before the
        `conditioning.enabled=false` that follows it.
        """
        tables: dict[str, dict[str, Any]] = {}
        for setting in settings:
            key, equals, text = setting.partition("=")
            table, dot, name = key.strip().partition(".")
            if not equals or not dot:
                raise UserError(
                    "`settings` must look like table.key=value, e.g. backbone.width=16, "
                    f"got {setting!r}"
                )
            tables.setdefault(table, {})[name] = parse_value(text)
        return self.updated(tables)

    def to_toml(self) -> str:
        """The whole recipe, every key written out."""
        lines = []
        for table in dataclasses.fields(self):
            lines.append(f"[{table.name}]")
            section = getattr(self, table.name)
            lines += [
                f"{f.name} = {format_value(getattr(section, f.name))}"
                for f in dataclasses.fields(section)
            ]
            lines.append("")
        return "\n".join(lines)

    def differences(self, other: "Config") -> list[str]:
        """Keys whose values differ, as `table.key: mine != theirs`."""
        return [
            f"{table.name}.{f.name}: {mine!r} != {theirs!r}"
            for table in dataclasses.fields(self)
            for f in dataclasses.fields(getattr(self, table.name))
            if (mine := getattr(getattr(self, table.name), f.name))
            != (theirs := getattr(getattr(other, table.name), f.name))
        ]
