"""Config: a whole recipe, read from TOML, changed by settings and written out again.

A recipe is a short diff from the defaults, which are the paper's FC100 5-shot setting.
"""

import dataclasses
import tomllib
from dataclasses import dataclass, field
from typing import Any, Self

from tadam.config.sockets import BackboneConfig, MethodConfig
from tadam.config.tables import (
    AugmentConfig,
    AuxiliaryConfig,
    ConditioningConfig,
    DataConfig,
    EpisodeConfig,
    MetricConfig,
)
from tadam.config.toml_tables import format_value, parse_value, updated
from tadam.config.training_tables import (
    OptimiserConfig,
    RunConfig,
    ScheduleConfig,
    ValidationConfig,
)
from tadam.errors import UserError, excerpt
from tadam.registry import BACKBONES, METHODS

#: Tables that only some methods use; see `MethodConfig.tables`.
_PARTS = ("metric", "conditioning", "auxiliary")
#: Settings that 0.1.0 wrote for every backbone, whether it had them or not.
_FORMER_BACKBONE_KEYS = {"width", "pools", "activation", "embedding", "initialisation"}


def _default_method() -> MethodConfig:
    method: MethodConfig = METHODS.settings("tadam")()
    return method


def _default_backbone() -> BackboneConfig:
    backbone: BackboneConfig = BACKBONES.settings("resnet12")()
    return backbone


@dataclass(frozen=True)
class Config:
    """A whole recipe: a table for each group of settings.

    Examples:
        >>> recipe = Config().updated({"episode": {"way": 10}, "run": {"seed": 3}})
        >>> recipe.episode.way, recipe.run.seed
        (10, 3)
    """

    data: DataConfig = field(default_factory=DataConfig)
    episode: EpisodeConfig = field(default_factory=EpisodeConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    method: MethodConfig = field(default_factory=_default_method)
    backbone: BackboneConfig = field(default_factory=_default_backbone)
    metric: MetricConfig = field(default_factory=MetricConfig)
    conditioning: ConditioningConfig = field(default_factory=ConditioningConfig)
    auxiliary: AuxiliaryConfig = field(default_factory=AuxiliaryConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        for name in set(_PARTS) - set(self.method.tables):
            part = getattr(self, name)
            if part != type(part)():
                raise UserError(f"method {self.method.name!r} does not use [{name}]: leave it out")
        self.method.check(self)

    @classmethod
    def from_toml(cls, text: str, source: str) -> Self:
        """Reads a recipe; `source` names it in errors."""
        tables = parse_toml(text, source)
        try:
            return cls().updated(tables)
        except UserError as error:
            raise UserError(f"{source}: {error}") from None

    @classmethod
    def from_written(cls, text: str, source: str) -> Self:
        """Reads what `to_toml` wrote, with this version or an earlier one."""
        tables = parse_toml(text, source)
        try:
            return cls().updated(upgraded(tables))
        except UserError as error:
            raise UserError(f"{source}: {error}") from None

    def updated(self, tables: dict[str, Any]) -> Self:
        """A copy with the keys in `tables` replaced.

        With another method, tables that it does not use go back to their defaults.
        """
        table = tables.get("method")
        method = self.method.chosen(table) if isinstance(table, dict) else self.method
        unused = set(_PARTS) - set(method.tables) - tables.keys()
        return updated(self, tables, **{name: type(getattr(self, name))() for name in unused})

    def with_settings(self, settings: list[str]) -> Self:
        """A copy with `key=value` settings such as `backbone.width=16`; a later one wins.

        They are checked together, so `backbone.name=pixels` may come before the
        `conditioning.enabled=false` that it needs.
        """
        tables: dict[str, dict[str, Any]] = {}
        for setting in settings:
            key, equals, text = setting.partition("=")
            table, dot, name = key.strip().partition(".")
            if not equals or not dot:
                raise UserError(
                    "`settings` must look like table.key=value, e.g. backbone.width=16, "
                    f"got {excerpt(repr(setting))}"
                )
            tables.setdefault(table, {})[name] = parse_value(text)
        return self.updated(tables)

    def sections(self) -> dict[str, dict[str, Any]]:
        """Table -> key -> value, without the tables that the method does not use."""
        unused = set(_PARTS) - set(self.method.tables)
        return {
            name: {f.name: getattr(section, f.name) for f in dataclasses.fields(section)}
            for name, section in vars(self).items()
            if name not in unused
        }

    def to_toml(self) -> str:
        """The whole recipe, every key written out."""
        lines = []
        for name, section in self.sections().items():
            lines.append(f"[{name}]")
            lines += [f"{key} = {format_value(value)}" for key, value in section.items()]
            lines.append("")
        return "\n".join(lines)

    def differences(self, other: "Config") -> list[str]:
        """Keys whose values differ, as `table.key: mine != theirs`."""
        mine, theirs = _flat(self), _flat(other)
        return [
            f"{key}: {mine.get(key, 'absent')!r} != {theirs.get(key, 'absent')!r}"
            for key in {**mine, **theirs}
            if mine.get(key) != theirs.get(key)
        ]


def _flat(config: Config) -> dict[str, Any]:
    return {
        f"{table}.{key}": value
        for table, section in config.sections().items()
        for key, value in section.items()
    }


def upgraded(tables: dict[str, Any]) -> dict[str, Any]:
    """Tables that an earlier version wrote, as this one writes them.

    EfficientNet-Lite0 had no head, and for a while every backbone had the settings of all others.
    """
    backbone = tables.get("backbone")
    if not isinstance(backbone, dict):
        return tables
    if backbone.get("name") == "efficientnet_lite0" and "head" not in backbone:
        backbone = {**backbone, "head": False}
        tables = {**tables, "backbone": backbone}
    if "method" in tables:
        return tables
    own = {f.name for f in dataclasses.fields(_default_backbone().chosen(backbone))}
    left_out = _FORMER_BACKBONE_KEYS - own
    return {**tables, "backbone": {k: v for k, v in backbone.items() if k not in left_out}}


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """The tables of a TOML file; `source` names it in errors."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{source} is not valid TOML: {error}") from None
