"""Conv units, residual blocks and folded units on the native core."""

from typing import cast

import torch
from torch import Tensor, nn

from tadam.native.convolution import convolve_and_finish, pack
from tadam.native.norm import Finish
from tadam.nn.conv_unit import ConvUnit
from tadam.nn.fast.fused_unit import FusedUnit
from tadam.nn.fast.guard import normalises_by_batch, normalises_by_running, pays, takes
from tadam.nn.fast.native_steps import infer_unit, train_units
from tadam.nn.fast.weights import WeightCache
from tadam.nn.film import Film
from tadam.nn.folded import FoldedUnit
from tadam.nn.residual_block import ResidualBlock

#: Folded weights are packed once for as long as they live; a change through `.data` is not seen.
_packed = WeightCache()


class NativeUnit(FusedUnit):
    """`ConvUnit` by the kernels, in training and, without gradients, in evaluation."""

    def forward(
        self,
        x: Tensor,
        modulation: tuple[Tensor, Tensor] | None = None,
        shortcut: tuple[Tensor, nn.BatchNorm2d] | None = None,
        pool: str | None = None,
    ) -> Tensor:
        """See `ConvUnit`."""
        side = None if shortcut is None else shortcut[0]
        if not takes(x, self.conv.out_channels, (modulation,), side):
            return super().forward(x, modulation, shortcut, pool)
        finish = Finish(self.activation, pool)
        norms = [self.norm] if shortcut is None else [self.norm, shortcut[1]]
        if normalises_by_batch(norms):
            return train_units(x, [self], [modulation], shortcut, finish)
        if torch.is_grad_enabled() or not normalises_by_running(norms):
            return super().forward(x, modulation, shortcut, pool)
        return infer_unit(x, self, modulation, shortcut, finish)


class NativeBlock(ResidualBlock):
    """`ResidualBlock` whose three units are one step of autograd in training."""

    def forward(self, x: Tensor, film: Film | None = None) -> Tensor:
        """See `ResidualBlock`."""
        filters = self.shortcut.conv.out_channels
        units = [cast(ConvUnit, unit) for unit in self.units]
        norms = [self.shortcut.norm, *(unit.norm for unit in units)]
        if not normalises_by_batch(norms) or not takes(x, filters, film or ()):
            return super().forward(x, film)
        side = self.shortcut.conv(x).contiguous(memory_format=torch.channels_last)
        finish = Finish(units[0].activation, self.pool)
        shortcut = (side, self.shortcut.norm)
        return train_units(x, units, film or [None] * len(units), shortcut, finish)


class NativeFoldedUnit(FoldedUnit):
    """`FoldedUnit` by the kernels."""

    def forward(self, x: Tensor, side: Tensor | None = None) -> Tensor:
        """See `FoldedUnit`."""
        weight, bias = self.conv.weight, self.conv.bias
        assert bias is not None
        if torch.is_grad_enabled() or not takes(x, side=side) or not pays(x, weight):
            return super().forward(x, side)
        packed = _packed.get(weight, "forward", lambda: pack(weight))
        sides = None if side is None else (side, None)
        finish = Finish(self.activation, self.pool)
        return convolve_and_finish(x, packed, None, bias[None], sides, finish)
