"""Conv-4, the backbone of Prototypical Networks (Snell et al., 2017) and of the paper's Table 2."""

from dataclasses import dataclass
from typing import Self, cast

import torch
from torch import Tensor, nn

from tadam.config import ConvBackboneConfig
from tadam.config.checks import require, require_choice
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
    pooled_units: int = 4
    """Units that end in a max-pool, from the first on; Relation Net has 2."""
    strided: bool = False
    """Convolutions with a stride of 2 in place of the max-pools, as MAML has for Omniglot."""

    def __post_init__(self) -> None:
        super().__post_init__()
        ok = 0 <= self.pooled_units <= 4
        require(ok, "backbone.pooled_units", "between 0 and 4", self.pooled_units)
        require_choice("backbone.embedding", self.embedding, ("pooled", "flat"))


@BACKBONES.register("conv4", Conv4Config)
class Conv4(Backbone):
    """Four conv units, each ending in an activation and, in the literature, a 2x2 max-pool.

    Args:
        in_channels: 1 or 3.
        width: Filters of every convolution; 64 in the literature.
        embedding: `flat` keeps the last feature map as one vector (Snell et al.), `pooled` averages
            it over space.
        activation: `relu` in the literature, or `swish`.
        image_size: Side of the input.
        pooled_units: How many units, from the first on, end in the max-pool.
        strided: Whether these units have a convolution with a stride of 2 instead.
    """

    pre_pool_layers = (0, 1, 2, 3)

    def __init__(
        self,
        in_channels: int = 3,
        width: int = 64,
        embedding: str = "flat",
        activation: str = "relu",
        image_size: int = 32,
        pooled_units: int = 4,
        strided: bool = False,
    ) -> None:
        super().__init__(in_channels, image_size)
        strides = [2 if strided and i < pooled_units else 1 for i in range(4)]
        self.units = nn.ModuleList(
            conv_unit(width if i else in_channels, width, activation, stride)
            for i, stride in enumerate(strides)
        )
        self.flat = embedding == "flat"
        pooled = 0 if strided else pooled_units
        self._pools = tuple("down" if i < pooled else None for i in range(4))
        sides = [image_size >> min(i + 1, pooled) for i in range(4)]  # pools round down
        if strided:  # padded convolutions round up
            sides = [-(-image_size // 2 ** min(i + 1, pooled_units)) for i in range(4)]
        self.stage_shapes = tuple((width, side) for side in sides)
        side = sides[-1]
        self.feature_size = width * side * side if self.flat else width
        self.conditioned_widths = (width,) * 4

    @classmethod
    def from_config(cls, config: Conv4Config, channels: int, image_size: int) -> Self:
        """The network of a recipe."""
        return cls(
            channels,
            config.width,
            config.embedding,
            config.activation,
            image_size,
            config.pooled_units,
            config.strided,
        )

    def initialise(self, config: Conv4Config, generator: torch.Generator) -> None:
        """Draws the convolutions' weights."""
        initialise_convolutions(self, config.initialisation, generator)

    def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
        """Embeds images, (T*N, C, H, W) -> (T*N, D)."""
        for i, unit in enumerate(self.units):  # `maps`, without its detour through `stage`
            x = unit(x, film[i] if film else None, pool=self._pools[i])
        return self.vectors(x)

    def stage(self, number: int, x: Tensor, film: Film | None = None) -> Tensor:
        """One conv unit and its pool."""
        modulation, pool = film[number] if film else None, self._pools[number]
        return self.units[number](x, modulation, pool=pool)  # type: ignore[no-any-return]

    def vectors(self, maps: Tensor) -> Tensor:
        """The map as one vector, or its mean."""
        return maps.flatten(1) if self.flat else maps.mean(dim=(2, 3))

    @torch.no_grad()
    def folded(self, film: Film | None = None) -> nn.Module:
        """Plain convolutions with bias."""
        film = film or [None] * len(self.conditioned_widths)
        stages: list[nn.Module] = [
            folded_unit(cast(ConvUnit, unit), modulation, pool)
            for unit, modulation, pool in zip(self.units, film, self._pools, strict=True)
        ]
        return FoldedNetwork(stages, self.flat, self.mirrored).eval()
