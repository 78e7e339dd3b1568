"""ResNet-12, the paper's feature extractor, with a FiLM input for each of its 12 convolutions."""

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

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.pools <= 4, "backbone.pools", "between 0 and 4", self.pools)


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

    @classmethod
    def from_config(cls, config: ResNet12Config, channels: int, image_size: int) -> Self:
        """The network of a recipe."""
        return cls(channels, config.width, config.pools, config.activation, image_size)

    def initialise(self, config: ResNet12Config, generator: torch.Generator) -> None:
        """Draws the convolutions' weights."""
        initialise_convolutions(self, config.initialisation, generator)

    def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
        """Embeds images, (T*N, C, H, W) -> (T*N, 8w); `film` holds 12 modulations."""
        for i, block in enumerate(self.blocks):
            x = block(x, film[3 * i : 3 * i + 3] if film else None)
        return x.mean(dim=(2, 3))

    @torch.no_grad()
    def folded(self, film: Film | None = None) -> nn.Module:
        """Plain convolutions with bias."""
        film = film or [None] * len(self.conditioned_widths)
        stages: list[nn.Module] = [
            FoldedBlock(cast(ResidualBlock, block), film[3 * i : 3 * i + 3])
            for i, block in enumerate(self.blocks)
        ]
        return FoldedNetwork(stages, False, self.mirrored).eval()
