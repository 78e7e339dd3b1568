"""ResNet-12, the paper's feature extractor, with a FiLM input for each of its 12 convolutions."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Self, cast

import torch
from torch import Tensor, nn

from tadam.config import ConvBackboneConfig
from tadam.config.checks import require
from tadam.nn.backbone import Backbone
from tadam.nn.conv_unit import ConvUnit, initialise_convolutions
from tadam.nn.fast import folded_unit, residual_block
from tadam.nn.film import Film
from tadam.nn.folded import FoldedConv, FoldedNetwork
from tadam.nn.residual_block import ResidualBlock
from tadam.registry import BACKBONES


@dataclass(frozen=True)
class ResNet12Config(ConvBackboneConfig):
    """Settings of ResNet-12."""

    name: str = "resnet12"
    pools: int = 3
    """Blocks that end in a max-pool: 4 in the paper's text, 3 in the authors' code."""
    projection: int = 0
    """Fully connected layers after the last block; the paper found that they do harm."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("pools", "projection"):
            value = getattr(self, name)
            require(0 <= value <= 4, f"backbone.{name}", "between 0 and 4", value)


class FoldedBlock(nn.Module):
    """Three folded units and the shortcut, whose bias is in the last unit."""

    def __init__(self, block: ResidualBlock, film: Film) -> None:
        super().__init__()
        self.shortcut = FoldedConv(block.shortcut, None)
        bias, self.shortcut.bias = self.shortcut.bias, None
        first, second, third = (cast(ConvUnit, unit) for unit in block.units)
        self.units = nn.ModuleList(
            [
                folded_unit(first, film[0], None),
                folded_unit(second, film[1], None),
                folded_unit(third, film[2], block.pool, bias),
            ]
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, C_in, H, W) -> (N, C_out, H', W')."""
        side = self.shortcut(x)
        x = self.units[1](self.units[0](x))
        return self.units[2](x, side)  # type: ignore[no-any-return]


@BACKBONES.register("resnet12", ResNet12Config)
class ResNet12(Backbone):
    """Four residual blocks of widths w, 2w, 4w, 8w and a global average pool.

    Args:
        in_channels: 1 or 3.
        width: w; the paper has 64.
        pools: How many blocks, from the first on, end in a 2x2 max-pool. The paper's text has 4,
            the authors' code 3.
        activation: `swish` or `relu`.
        image_size: Side of the input.
        projection: Fully connected layers after the average pool, as wide as the embedding; all
            but the last have an activation.
    """

    #: Indices of the convolutions that precede a max-pool in the paper: layers 3, 6, 9 and 12.
    pre_pool_layers = (2, 5, 8, 11)

    def __init__(
        self,
        in_channels: int = 3,
        width: int = 64,
        pools: int = 3,
        activation: str = "swish",
        image_size: int = 32,
        projection: int = 0,
    ) -> None:
        super().__init__(in_channels, image_size)
        widths = [width * 2**i for i in range(4)]
        self.blocks = nn.ModuleList(
            residual_block(
                in_channels if i == 0 else widths[i - 1], widths[i], i < pools, activation
            )
            for i in range(4)
        )
        self.feature_size = widths[-1]
        self.conditioned_widths = tuple(w for w in widths for _ in range(3))
        # Pools round up: -(-side // 2^n).
        sides = [-(-image_size // 2 ** min(i + 1, pools)) for i in range(4)]
        self.stage_shapes = tuple(zip(widths, sides, strict=True))
        layers: list[nn.Module] = []
        for i in range(projection):
            layers += [nn.SiLU() if activation == "swish" else nn.ReLU()] if i else []
            layers.append(nn.Linear(widths[-1], widths[-1]))
        self.projection = nn.Sequential(*layers)

    @classmethod
    def from_config(cls, config: ResNet12Config, channels: int, image_size: int) -> Self:
        """The network of a recipe."""
        return cls(
            channels, config.width, config.pools, config.activation, image_size, config.projection
        )

    def initialise(self, config: ResNet12Config, generator: torch.Generator) -> None:
        """Draws the weights of convolutions and projection."""
        initialise_convolutions(self, config.initialisation, generator)
        for layer in self.projection:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight, generator=generator)
                nn.init.zeros_(layer.bias)

    def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
        """Embeds images, (T*N, C, H, W) -> (T*N, 8w); `film` holds 12 modulations."""
        for i, block in enumerate(self.blocks):  # `maps`, without its detour through `stage`
            x = block(x, film[3 * i : 3 * i + 3] if film else None)
        return self.vectors(x)

    def stage(self, number: int, x: Tensor, film: Film | None = None) -> Tensor:
        """One residual block, with the pool at its end."""
        own = film[3 * number : 3 * number + 3] if film else None
        return self.blocks[number](x, own)  # type: ignore[no-any-return]

    def vectors(self, maps: Tensor) -> Tensor:
        """The map's mean, through the projection if there is one."""
        return self.projection(maps.mean(dim=(2, 3)))  # type: ignore[no-any-return]

    @torch.no_grad()
    def folded(self, film: Film | None = None) -> nn.Module:
        """Plain convolutions with bias."""
        film = film or [None] * len(self.conditioned_widths)
        stages: list[nn.Module] = [
            FoldedBlock(cast(ResidualBlock, block), film[3 * i : 3 * i + 3])
            for i, block in enumerate(self.blocks)
        ]
        projection = deepcopy(self.projection) if len(self.projection) else None
        return FoldedNetwork(stages, False, self.mirrored, projection).eval()
