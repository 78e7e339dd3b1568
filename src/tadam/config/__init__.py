"""Everything a run depends on: frozen dataclasses read from and written to TOML."""

from tadam.config.recipe import Config
from tadam.config.sockets import BackboneConfig, ConvBackboneConfig, MethodConfig
from tadam.config.tables import (
    AugmentConfig,
    AuxiliaryConfig,
    ConditioningConfig,
    DataConfig,
    EpisodeConfig,
    MetricConfig,
)
from tadam.config.training_tables import (
    OptimiserConfig,
    RunConfig,
    ScheduleConfig,
    ValidationConfig,
)

__all__ = [
    "AugmentConfig",
    "AuxiliaryConfig",
    "BackboneConfig",
    "ConditioningConfig",
    "Config",
    "ConvBackboneConfig",
    "DataConfig",
    "EpisodeConfig",
    "MethodConfig",
    "MetricConfig",
    "OptimiserConfig",
    "RunConfig",
    "ScheduleConfig",
    "ValidationConfig",
]
