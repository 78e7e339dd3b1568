"""ResNet-12, the paper's feature extractor, with a FiLM input for each of its 12 convolutions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from tadam.config import ConvBackboneConfig
from tadam.config.checks import require
from tadam.nn.backbone import Backbone
from tadam.nn.conv_unit import (
    ConvNorm,
    ConvUnit,
    initialise_convolutions,
    run_units,
    takes_parts,
)
from tadam.nn.film import Film
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


class ResidualBlock(nn.Module):
    """Three conv units with a 1x1 shortcut (TADAM, fig. S1b).

    Swish follows units 1 and 2; after unit 3 the shortcut is added, then swish, then the pool.
    FiLM acts before the sum; the shortcut is not conditioned.
    """

    def __init__(self, in_channels: int, out_channels: int, pool: bool, activation: str) -> None:
        super().__init__()
        self.units = nn.ModuleList(
            ConvUnit(in_channels if i == 0 else out_channels, out_channels, activation)
            for i in range(3)
        )
        self.shortcut = ConvNorm(in_channels, out_channels, kernel_size=1)
        self.pool = pool

    def forward(
        self, x: Tensor, modulations: Film | None = None, parts: Sequence[int] | None = None
    ) -> Tensor:
        """(T*N, C_in, H, W) -> (T*N, C_out, H', W'), H' = ceil(H / 2) if the block pools."""
        film = modulations or (None, None, None)
        shortcut = (self.shortcut.conv(x), self.shortcut.norm)
        # Rounded up, an odd size such as 21 (84 / 4) does not lose its last row.
        pool = "up" if self.pool else None
        return run_units(list(self.units), x, film, shortcut, pool, parts)  # type: ignore[arg-type]


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
        self.activation = activation
        widths = [width * 2**i for i in range(4)]
        self.blocks = nn.ModuleList(
            ResidualBlock(
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
        return self._embed(x, film, None)

    def _embed(self, x: Tensor, film: Film | None, parts: Sequence[int] | None) -> Tensor:
        for i, block in enumerate(self.blocks):
            x = block(x, film[3 * i : 3 * i + 3] if film else None, parts)
        return x.mean(dim=(2, 3))

    def forward(
        self, x: Tensor, film: Film | None = None, parts: Sequence[int] | None = None
    ) -> Tensor:
        """`embed`; in training, images may be the parts of several batches, see `takes_parts`."""
        return super().forward(x, film) if parts is None else self._embed(x, film, parts)

    def embed_each(self, batches: Sequence[Tensor], film: Film | None = None) -> list[Tensor]:
        """As one batch where that is quicker; a subclass may have an `embed` of its own."""
        together = self.training and len(batches) > 1 and type(self) is ResNet12
        if not (together and takes_parts(batches[0], self.activation)):
            return super().embed_each(batches, film)
        parts = [len(x) for x in batches]
        return list(self(torch.cat(list(batches)), film, parts).split(parts))
