"""Raw pixels as an embedding: the floor that every learnt backbone is measured against."""

from dataclasses import dataclass
from typing import ClassVar, Self

from torch import Tensor

from tadam.config import BackboneConfig
from tadam.nn.backbone import Backbone
from tadam.nn.film import Film
from tadam.registry import BACKBONES


@dataclass(frozen=True)
class PixelsConfig(BackboneConfig):
    """Raw pixels have no settings of their own."""

    name: str = "pixels"
    conditionable: ClassVar[bool] = False


@BACKBONES.register("pixels", PixelsConfig)
class RawPixels(Backbone):
    """Flattens an image; nothing is learnt and nothing can be conditioned."""

    def __init__(self, in_channels: int = 3, image_size: int = 32) -> None:
        super().__init__(in_channels, image_size)
        self.feature_size = in_channels * image_size * image_size

    @classmethod
    def from_config(cls, config: PixelsConfig, channels: int, image_size: int) -> Self:
        """The backbone of a recipe."""
        return cls(channels, image_size)

    def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
        """(N, C, H, W) -> (N, C*H*W)."""
        return x.flatten(1)
