"""Tables of a recipe: data, tasks, and the parts of TADAM; each checks itself.

Defaults are the paper's FC100 5-shot setting. The text below a setting is its documentation:
`tadam settings` prints it.
"""

from dataclasses import dataclass

from tadam.config.checks import require, require_choice


@dataclass(frozen=True)
class DataConfig:
    """Which images to train on."""

    name: str = "fc100"
    """A name from `tadam data list`, or folder:PATH."""
    image_size: int = 0
    """Side in pixels; 0 for the data set's own."""
    split_seed: int = 0
    """Seed for splitting the classes of folder:PATH into train, val and test."""

    def __post_init__(self) -> None:
        readable = not any("\ud800" <= letter <= "\udfff" for letter in self.name)
        require(readable, "data.name", "valid Unicode", self.name)
        ok = self.image_size == 0 or 16 <= self.image_size <= 256
        require(ok, "data.image_size", "0 or between 16 and 256", self.image_size)
        require(self.split_seed >= 0, "data.split_seed", "at least 0", self.split_seed)


@dataclass(frozen=True)
class EpisodeConfig:
    """The tasks of a training step."""

    way: int = 5
    """Classes per task."""
    shot: int = 5
    """Support images per class."""
    queries: int = 32
    """Query images per task, over all its classes."""
    tasks: int = 2
    """Tasks per training step."""
    balanced_queries: bool = False
    """Draw equally many queries per class; the paper draws from all classes pooled."""
    within_family: float = 0.0
    """Share of tasks whose classes are all of one family, such as a superclass."""

    def __post_init__(self) -> None:
        require(self.way >= 2, "episode.way", "at least 2", self.way)
        for name in ("shot", "queries", "tasks"):
            require(getattr(self, name) >= 1, f"episode.{name}", "at least 1", getattr(self, name))
        share = self.within_family
        require(0 <= share <= 1, "episode.within_family", "between 0 and 1", share)


@dataclass(frozen=True)
class AugmentConfig:
    """Random changes to training images."""

    flip: bool = False
    """Mirror each image with probability 1/2."""
    crop_padding: int = 0
    """Shift each image by up to this many pixels in x and in y."""
    brightness: float = 0.0
    """Multiply brightness by a random factor between 1 minus and 1 plus this."""
    contrast: float = 0.0
    """The same for contrast."""
    saturation: float = 0.0
    """The same for saturation."""
    rotated_classes: bool = False
    """Treat a class rotated by 90, 180 or 270 degrees as a class of its own."""

    def __post_init__(self) -> None:
        ok = 0 <= self.crop_padding <= 64
        require(ok, "augment.crop_padding", "between 0 and 64", self.crop_padding)
        for name in ("brightness", "contrast", "saturation"):
            value = getattr(self, name)
            require(0 <= value < 1, f"augment.{name}", "at least 0 and below 1", value)


@dataclass(frozen=True)
class MetricConfig:
    """How embeddings are compared with prototypes."""

    distance: str = "euclidean"
    """euclidean, sqeuclidean or cosine."""
    alpha: float = 1.0
    """Scale of the distances; the initial value if it is learnt."""
    learn_alpha: bool = False
    """Whether to learn alpha."""

    def __post_init__(self) -> None:
        require_choice("metric.distance", self.distance, ("euclidean", "sqeuclidean", "cosine"))
        require(0 < self.alpha < 1e6, "metric.alpha", "above 0 and below 1e6", self.alpha)


@dataclass(frozen=True)
class ConditioningConfig:
    """Task conditioning by a task embedding network (TEN)."""

    enabled: bool = True
    """Whether to condition the network on the task."""
    layers: str = "all"
    """Convolutions to condition: all, pre_pool (3, 6, 9 and 12 of ResNet-12) or last."""
    representation: str = "mean"
    """What TEN sees of a task: mean of the prototypes (the paper's), mean_std, or moments."""
    standardise: bool = False
    """Show TEN deviations from the usual training task, by running statistics."""
    base: bool = False
    """Learn a scale and shift that all tasks share, so that TEN only predicts deviations."""
    multipliers: bool = True
    """Damp TEN by gamma0 and beta0, which start at zero; without them it acts at once."""
    shared: int = 0
    """Width of one small TEN that all layers share; 0 gives each layer its own (the paper's)."""
    dropout: float = 0.0
    """Share of TEN's input that is dropped in training."""
    noise: float = 0.0
    """Standard deviation of the noise that training adds to TEN's input."""

    def __post_init__(self) -> None:
        require_choice("conditioning.layers", self.layers, ("all", "pre_pool", "last"))
        kinds = ("mean", "mean_std", "moments")
        require_choice("conditioning.representation", self.representation, kinds)
        ok = 0 <= self.dropout < 1
        require(ok, "conditioning.dropout", "at least 0 and below 1", self.dropout)
        require(self.noise >= 0, "conditioning.noise", "at least 0", self.noise)
        require(self.shared >= 0, "conditioning.shared", "at least 0", self.shared)


@dataclass(frozen=True)
class AuxiliaryConfig:
    """Co-training on classifying all training classes at once."""

    enabled: bool = True
    """Whether to co-train."""
    batch_size: int = 64
    """Images per auxiliary update."""
    probability: float = 0.9
    """Probability of an auxiliary update at the start ..."""
    decay: float = 0.9
    """... multiplied by this ..."""
    decay_steps: int = 20
    """... this many times over the run."""
    pretraining: float = 0.0
    """Instead of co-training, classify all classes for this share of the run, then never again."""

    def __post_init__(self) -> None:
        require(self.batch_size >= 2, "auxiliary.batch_size", "at least 2", self.batch_size)
        for name in ("probability", "decay", "pretraining"):
            value = getattr(self, name)
            require(0 <= value <= 1, f"auxiliary.{name}", "between 0 and 1", value)
        require(self.decay_steps >= 1, "auxiliary.decay_steps", "at least 1", self.decay_steps)
