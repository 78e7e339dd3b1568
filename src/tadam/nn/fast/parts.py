"""The fastest variant of each part that this machine can run, chosen when a network is built."""

from torch import Tensor

from tadam import native
from tadam.nn.conv_unit import ConvUnit
from tadam.nn.fast.fused_unit import FusedUnit
from tadam.nn.fast.native_units import NativeBlock, NativeFoldedUnit, NativeUnit
from tadam.nn.folded import FoldedUnit
from tadam.nn.residual_block import ResidualBlock


def conv_unit(in_channels: int, out_channels: int, activation: str, stride: int = 1) -> ConvUnit:
    """A `ConvUnit`; the kernels know no stride but 1."""
    kind = NativeUnit if native.available() and stride == 1 else FusedUnit
    return kind(in_channels, out_channels, activation, stride)


def residual_block(
    in_channels: int, out_channels: int, pool: bool, activation: str
) -> ResidualBlock:
    """A `ResidualBlock` of such units."""
    kind = NativeBlock if native.available() else ResidualBlock
    return kind(in_channels, out_channels, pool, activation, conv_unit)


def folded_unit(
    unit: ConvUnit,
    modulation: tuple[Tensor, Tensor] | None,
    pool: str | None,
    extra_bias: Tensor | None = None,
) -> FoldedUnit:
    """A `FoldedUnit`."""
    strided = unit.conv.stride != (1, 1)
    kind = NativeFoldedUnit if native.available() and not strided else FoldedUnit
    return kind(unit, modulation, pool, extra_bias)
