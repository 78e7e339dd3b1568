"""The residual block of ResNet-12 (TADAM, fig. S1b)."""

from collections.abc import Callable

from torch import Tensor, nn

from tadam.nn.conv_unit import ConvNorm, ConvUnit
from tadam.nn.film import Film


class ResidualBlock(nn.Module):
    """Three conv units with a 1x1 shortcut.

    An activation follows units 1 and 2; after unit 3 the shortcut is added, then comes the
    activation, then the pool. FiLM acts before the sum; the shortcut is not conditioned.
    `tadam.nn.fast.residual_block` builds its fastest variant.

    Args:
        in_channels: Channels of the input.
        out_channels: Filters of every convolution.
        pool: Whether a 2x2 max-pool ends the block.
        activation: `swish` or `relu`.
        unit: Builds a unit from its channels, filters and activation.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        pool: bool,
        activation: str,
        unit: Callable[[int, int, str], ConvUnit] = ConvUnit,
    ) -> None:
        super().__init__()
        self.units = nn.ModuleList(
            unit(in_channels if i == 0 else out_channels, out_channels, activation)
            for i in range(3)
        )
        self.shortcut = ConvNorm(in_channels, out_channels, kernel_size=1)
        # Rounded up, an odd size such as 21 (84 / 4) does not lose its last row.
        self.pool = "up" if pool else None

    def forward(self, x: Tensor, film: Film | None = None) -> Tensor:
        """(T*N, C_in, H, W) -> (T*N, C_out, H', W'), H' = ceil(H / 2) if the block pools."""
        first, second, third = film or (None, None, None)
        shortcut = (self.shortcut.conv(x), self.shortcut.norm)
        x = self.units[1](self.units[0](x, first), second)
        return self.units[2](x, third, shortcut, self.pool)  # type: ignore[no-any-return]
