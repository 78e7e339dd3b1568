"""Conv-4, the backbone of Prototypical Networks (Snell et al., 2017) and of the paper's Table 2."""

from dataclasses import dataclass
from typing import Self, cast

import torch
from torch import Tensor, nn

from tadam.config import ConvBackboneConfig
from tadam.config.checks import require_choice
from tadam.nn.backbone import Backbone
from tadam.nn.conv_unit import ConvUnit, initialise_convolutions
from tadam.nn.fast import conv_unit, folded_unit
from tadam.nn.film import Film
from tadam.nn.folded import FoldedNetwork
from tadam.registry import BACKBONES


@dataclass(frozen=True)
class Conv4Config(ConvBackboneConfig):
    """Settings of Conv-4."""

    name: str = "conv4"
    embedding: str = "pooled"
    """flat: the last feature map as one vector, as in the literature; pooled: its mean."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("backbone.embedding", self.embedding, ("pooled", "flat"))


@BACKBONES.register("conv4", Conv4Config)
class Conv4(Backbone):
    """Four conv units, each followed by an activation and a 2x2 max-pool.

    Args:
        in_channels: 1 or 3.
        width: Filters of every convolution; 64 in the literature.
        embedding: `flat` keeps the last feature map as one vector (Snell et al.), `pooled` averages
            it over space.
        activation: `relu` in the literature, or `swish`.
        image_size: Side of the input.
    """

    pre_pool_layers = (0, 1, 2, 3)

    def __init__(
        self,
        in_channels: int = 3,
        width: int = 64,
        embedding: str = "flat",
        activation: str = "relu",
        image_size: int = 32,
    ) -> None:
        super().__init__(in_channels, image_size)
        self.units = nn.ModuleList(
            conv_unit(in_channels if i == 0 else width, width, activation) for i in range(4)
        )
        self.flat = embedding == "flat"
        side = image_size // 16  # four pools, rounding down as in the literature
        self.feature_size = width * side * side if self.flat else width
        self.conditioned_widths = (width,) * 4

    @classmethod
    def from_config(cls, config: Conv4Config, channels: int, image_size: int) -> Self:
        """The network of a recipe."""
        return cls(channels, config.width, config.embedding, config.activation, image_size)

    def initialise(self, config: Conv4Config, generator: torch.Generator) -> None:
        """Draws the convolutions' weights."""
        initialise_convolutions(self, config.initialisation, generator)

    def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
        """Embeds images, (T*N, C, H, W) -> (T*N, D)."""
        for i, unit in enumerate(self.units):
            x = unit(x, film[i] if film else None, pool="down")
        return x.flatten(1) if self.flat else x.mean(dim=(2, 3))

    @torch.no_grad()
    def folded(self, film: Film | None = None) -> nn.Module:
        """Plain convolutions with bias."""
        film = film or [None] * len(self.conditioned_widths)
        stages: list[nn.Module] = [
            folded_unit(cast(ConvUnit, unit), modulation, "down")
            for unit, modulation in zip(self.units, film, strict=True)
        ]
        return FoldedNetwork(stages, self.flat, self.mirrored).eval()
