"""Tables of a recipe: how a run trains, validates and logs; each checks itself."""

from dataclasses import dataclass

from tadam.config.checks import require, require_choice


@dataclass(frozen=True)
class OptimiserConfig:
    """The optimiser, its penalties and the loss."""

    name: str = "sgd"
    """sgd (the paper's) or adamw, which gets further in a short run."""
    learning_rate: float = 0.1
    """Base rate, which the schedule scales."""
    momentum: float = 0.9
    """Momentum of sgd."""
    weight_decay: float = 5e-4
    """Weight decay of convolutions and TEN; batch norm, biases and heads have none."""
    multiplier_decay: float = 0.01
    """Weight decay of gamma0 and beta0."""
    clip: str = "parameter"
    """Which gradient norm to limit: parameter (each by itself), global or none."""
    clip_norm: float = 1.0
    """The limit on that norm."""
    label_smoothing: float = 0.0
    """Share of the target probability that is spread over all classes."""

    def __post_init__(self) -> None:
        require_choice("optimiser.name", self.name, ("sgd", "adamw"))
        require(self.learning_rate > 0, "optimiser.learning_rate", "above 0", self.learning_rate)
        require(self.clip_norm > 0, "optimiser.clip_norm", "above 0", self.clip_norm)
        require_choice("optimiser.clip", self.clip, ("parameter", "global", "none"))
        for name in ("momentum", "label_smoothing"):
            value = getattr(self, name)
            require(0 <= value < 1, f"optimiser.{name}", "at least 0 and below 1", value)
        for name in ("weight_decay", "multiplier_decay"):
            value = getattr(self, name)
            require(value >= 0, f"optimiser.{name}", "at least 0", value)


@dataclass(frozen=True)
class ScheduleConfig:
    """How long to train, and the learning rate over that time."""

    episodes: int = 10_000
    """Training steps T."""
    kind: str = "step"
    """step, or cosine, which falls smoothly to zero."""
    drops: tuple[float, ...] = (0.5, 0.75, 1.0)
    """Where step divides the rate, as fractions of T ..."""
    drop_factor: float = 10.0
    """... and by how much."""
    warmup: int = 0
    """Steps over which the rate rises linearly from zero."""

    def __post_init__(self) -> None:
        require(self.episodes >= 1, "schedule.episodes", "at least 1", self.episodes)
        require_choice("schedule.kind", self.kind, ("step", "cosine"))
        require(all(0 < d <= 1 for d in self.drops), "schedule.drops", "in (0, 1]", self.drops)
        require(self.drop_factor >= 1, "schedule.drop_factor", "at least 1", self.drop_factor)
        require(self.warmup >= 0, "schedule.warmup", "at least 0", self.warmup)


@dataclass(frozen=True)
class ValidationConfig:
    """The tasks that choose the best weights of a run."""

    every: int = 500
    """Steps between validations."""
    tasks: int = 200
    """Tasks per validation."""
    queries: int = 100
    """Query images per task."""
    balanced: bool = False
    """Draw equally many queries per class; the paper draws from all classes pooled."""
    way: int = 0
    """Classes per task; 0 for as many as in training."""
    seed: int = 1_000_003
    """Fixes the tasks: the same at every validation, whatever the run's seed."""
    patience: int = 0
    """Stop after this many validations without a new best; 0 never stops."""

    def __post_init__(self) -> None:
        for name in ("every", "tasks", "queries"):
            value = getattr(self, name)
            require(value >= 1, f"validation.{name}", "at least 1", value)
        ok = self.way == 0 or self.way >= 2
        require(ok, "validation.way", "0 or at least 2", self.way)
        require(self.patience >= 0, "validation.patience", "at least 0", self.patience)
        require(self.seed >= 0, "validation.seed", "at least 0", self.seed)


@dataclass(frozen=True)
class RunConfig:
    """Seed, log and checkpoints."""

    seed: int = 0
    """Fixes the initial weights, the tasks and the augmentation."""
    log_every: int = 20
    """Steps between log records."""
    checkpoint_every: int = 200
    """Steps between checkpoints."""
    max_loss: float = 1000.0
    """A loss beyond this, or NaN, stops the run."""
    tensorboard: bool = False
    """Also write TensorBoard's event files (extra: tensorboard)."""

    def __post_init__(self) -> None:
        require(0 <= self.seed < 2**63, "run.seed", "between 0 and 2^63 - 1", self.seed)
        for name in ("log_every", "checkpoint_every"):
            require(getattr(self, name) >= 1, f"run.{name}", "at least 1", getattr(self, name))
        require(self.max_loss > 0, "run.max_loss", "above 0", self.max_loss)
