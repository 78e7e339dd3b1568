"""The tables [method] and [backbone]: their `name` decides which other settings they have."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from tadam.config.checks import require, require_choice
from tadam.registry import BACKBONES, METHODS, Registry

if TYPE_CHECKING:
    from tadam.config.recipe import Config


class _Chosen:
    """A table whose `name` decides which other settings it has."""

    _registry: ClassVar[Registry]
    name: str

    def chosen(self, table: Mapping[str, Any]) -> Any:
        """These settings, or those for the name in `table`, keeping the values that both share."""
        name = table.get("name", self.name)
        if not isinstance(name, str) or name == self.name:
            return self
        settings = self._registry.settings(name)
        common = {f.name for f in fields(settings)} & vars(self).keys() - {"name"}
        return settings(**{key: getattr(self, key) for key in common})


@dataclass(frozen=True)
class MethodConfig(_Chosen):
    """The few-shot method; each adds settings of its own, in its own file.

    A method that uses the tables [metric], [conditioning] or [auxiliary] lists them in `tables`;
    for any other method they must keep their defaults.
    """

    _registry: ClassVar[Registry] = METHODS
    tables: ClassVar[tuple[str, ...]] = ()

    name: str = "tadam"
    """The method: a file in src/tadam/methods."""

    def has_class_head(self, config: "Config") -> bool:
        """Whether the method has a head over all training classes."""
        return False

    def check(self, config: "Config") -> None:
        """Raises a `UserError` for a recipe that this method cannot work with."""


@dataclass(frozen=True)
class BackboneConfig(_Chosen):
    """The network; each backbone adds settings of its own, in its own file."""

    _registry: ClassVar[Registry] = BACKBONES
    conditionable: ClassVar[bool] = True  # whether it has a layer for FiLM

    name: str = "resnet12"
    """The backbone: a file in src/tadam/nn/backbones."""
    statistics: str = "batch"
    """Batch-norm statistics in training: batch (all tasks of a process) or task (each alone)."""
    mirrored: bool = False
    """Outside training, average the embeddings of an image and its mirror image."""

    def __post_init__(self) -> None:
        require_choice("backbone.statistics", self.statistics, ("batch", "task"))


@dataclass(frozen=True)
class ConvBackboneConfig(BackboneConfig):
    """Settings that the trained convolutional backbones share."""

    width: int = 64
    """Filters in the first block."""
    activation: str = "swish"
    """swish or relu."""
    initialisation: str = "paper"
    """paper (the authors' small variance) or he."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(1 <= self.width <= 1024, "backbone.width", "between 1 and 1024", self.width)
        require_choice("backbone.activation", self.activation, ("swish", "relu"))
        require_choice("backbone.initialisation", self.initialisation, ("paper", "he"))
