"""A conv unit whose training step remembers little; in plain PyTorch, on any device."""

from torch import Tensor, nn

from tadam.nn.conv_unit import ConvUnit
from tadam.nn.fast.fused_step import norm_film_swish
from tadam.nn.fast.guard import normalises_by_batch
from tadam.nn.fast.switch import plain_wanted


class FusedUnit(ConvUnit):
    """`ConvUnit` with what follows the convolution as one step of autograd, for swish."""

    def finish(
        self,
        x: Tensor,
        modulation: tuple[Tensor, Tensor] | None,
        shortcut: tuple[Tensor, nn.BatchNorm2d] | None,
        pool: str | None,
    ) -> Tensor:
        """See `ConvUnit`."""
        norms = [self.norm] if shortcut is None else [self.norm, shortcut[1]]
        if self.activation != "swish" or plain_wanted() or not normalises_by_batch(norms):
            return super().finish(x, modulation, shortcut, pool)
        return norm_film_swish(x, self.norm, modulation, shortcut, pool)
