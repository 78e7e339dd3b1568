"""What follows a convolution in training, as one step of autograd that remembers little.

Plain autograd keeps the outputs of batch norm, FiLM, sum, swish and max-pool for the backward pass,
which is most of the memory of a training step. Here only where the maxima were is kept, and all
else is computed again from what the convolutions gave. Norms and FiLM are one scale and one shift
of each channel.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tadam.nn.film import check_modulation
from tadam.nn.first_order import refuse_second_order
from tadam.nn.max_pool import max_pool, max_pool_backward


def _statistics(x: Tensor, norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """Mean and 1/std of a batch, (C,) each; the running statistics move."""
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    momentum, running = norm.momentum or 0.0, (norm.running_mean, norm.running_var)
    if x.device.type == "cpu":
        mean, variance = torch.ops.aten.batch_norm_update_stats(x, *running, momentum)
        return mean, variance.add_(norm.eps).rsqrt_()
    learnt = (norm.weight, norm.bias)
    _, mean, invstd = torch.native_batch_norm(x, *learnt, *running, True, momentum, norm.eps)
    return mean, invstd


def _by_task(x: Tensor, tasks: int) -> Tensor:
    """(T*N, C, H, W) -> (T, N, C, H, W)."""
    return x.view(tasks, -1, *x.shape[1:])


def _for_task(vectors: Tensor) -> Tensor:
    """(T, C) -> (T, 1, C, 1, 1)."""
    return vectors.view(len(vectors), 1, -1, 1, 1)


def _scaled(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """`scale * x + shift`, the vectors of each task, (T, C), for its images, (T*N, C, H, W)."""
    out = torch.empty_like(x)
    to, images = _by_task(out, len(scale)), _by_task(x, len(scale))
    torch.addcmul(_for_task(shift), images, _for_task(scale), out=to)
    return out


def _add_scaled(to: Tensor, x: Tensor, scale: Tensor) -> Tensor:
    """Adds `scale * x` in place, the vector of each task, (T, C), for its images."""
    _by_task(to, len(scale)).addcmul_(_by_task(x, len(scale)), _for_task(scale))
    return to


class _Normed(NamedTuple):
    """A batch norm at work: input, (T*N, C, H, W); its scale and the input's moments, (C,) each."""

    x: Tensor
    scale: Tensor
    mean: Tensor
    invstd: Tensor

    def shift(self, bias: Tensor) -> Tensor:
        """What is added to the scaled input, (C,)."""
        return torch.addcmul(bias, self.mean, self.scale, value=-1)

    def sums(self, grad: Tensor, tasks: int) -> Tensor:
        """Of gradient times normalised input and of the gradient alone, (T, 2, C)."""
        moments, wanted = (self.mean, self.invstd), [False, True, True]
        parts = [
            part
            for pair in zip(grad.chunk(tasks), self.x.chunk(tasks), strict=True)
            for part in torch.ops.aten.native_batch_norm_backward(
                *pair, self.scale, None, None, *moments, True, 0.0, wanted
            )[1:]
        ]
        return torch.stack(parts).view(tasks, 2, -1)

    def input_gradient(self, grad: Tensor, scale: Tensor, sums: Tensor) -> Tensor:
        """Gradient of the input.

        Args:
            grad: Of what follows the scale, (T*N, C, H, W).
            scale: Of each task, (T, C), with FiLM's.
            sums: Gradients of the norm's weight and bias, (2, C).
        """
        # The statistics are of the batch, so all of it takes part in the gradient of each value.
        share = self.scale * (-len(self.scale) / self.x.numel())
        of_weight, of_bias = sums * share
        factor = of_weight * self.invstd
        rest = torch.addcmul(of_bias, factor, self.mean, value=-1)
        return _add_scaled(_scaled(self.x, factor[None], rest[None]), grad, scale)


def _normed(x: Tensor, norm: nn.BatchNorm2d) -> _Normed:
    mean, invstd = _statistics(x, norm)
    return _Normed(x, norm.weight * invstd, mean, invstd)


def _before_swish(main: _Normed, side: _Normed | None, scale: Tensor, shift: Tensor) -> Tensor:
    """Norm, FiLM and shortcut; scale and shift of each task, (T, C), have those of all norms."""
    y = _scaled(main.x, scale, shift)
    return _add_scaled(y, side.x, side.scale[None]) if side else y


class _NormFilmSwish(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        gamma: Tensor | None,
        beta: Tensor | None,
        shortcut: Tensor | None,
        shortcut_weight: Tensor | None,
        shortcut_bias: Tensor | None,
        norm: nn.BatchNorm2d,
        shortcut_norm: nn.BatchNorm2d | None,
        pool: str | None,
    ) -> Tensor:
        main, side = _normed(x, norm), None
        scale, shift = main.scale[None], main.shift(bias)[None]
        if gamma is not None and beta is not None:
            scale, shift = gamma * scale, torch.addcmul(beta, gamma, shift)
        if shortcut is not None and shortcut_norm is not None:
            side = _normed(shortcut, shortcut_norm)
            shift = shift + side.shift(shortcut_norm.bias)
        y = F.silu(_before_swish(main, side, scale, shift), inplace=True)
        y, places = max_pool(y, pool) if pool else (y, None)
        ctx.save_for_backward(weight, bias, gamma, scale, shift, places, *main, *(side or ()))
        ctx.pool = pool
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_order()
        weight, bias, gamma, scale, shift, places, *normed = ctx.saved_tensors
        main, side = _Normed(*normed[:4]), _Normed(*normed[4:]) if normed[4:] else None
        y = _before_swish(main, side, scale, shift)
        if ctx.pool:
            grad = max_pool_backward(grad, y, ctx.pool, places)
        grad = torch.ops.aten.silu_backward(grad, y, grad_input=y)
        sums = main.sums(grad, len(scale))
        of_film: tuple[Tensor | None, ...] = (None, None)
        of_side: tuple[Tensor | None, ...] = (None, None, None)
        if gamma is None:
            of_norm = sums[0]
        else:
            of_norm = (gamma[:, None] * sums).sum(dim=0)
            with_input, alone = sums.unbind(dim=1)
            of_film = (torch.addcmul(bias * alone, weight, with_input), alone)
        if side:
            of_side_norm = side.sums(grad, tasks=1)[0]
            of_shortcut = side.input_gradient(grad, side.scale[None], of_side_norm)
            of_side = (of_shortcut, *of_side_norm)
        of_x = main.input_gradient(grad, scale, of_norm)
        return of_x, *of_norm, *of_film, *of_side, None, None, None


def norm_film_swish(
    x: Tensor,
    norm: nn.BatchNorm2d,
    modulation: tuple[Tensor, Tensor] | None = None,
    shortcut: tuple[Tensor, nn.BatchNorm2d] | None = None,
    pool: str | None = None,
) -> Tensor:
    """`pool(swish(gamma * norm(x) + beta + norm_s(shortcut)))` with the statistics of the batch.

    Args:
        x: Output of a convolution, (T*N, C, H, W).
        norm: Its weights are used and its running statistics updated.
        modulation: gamma and beta, each (T, C).
        shortcut: Output of the shortcut's convolution, (T*N, C, H, W), and its batch norm.
        pool: A 2x2 max-pool at the end, sizes rounded `up` or `down`; None for none.
    """
    gamma, beta = modulation if modulation is not None else (None, None)
    if gamma is not None and beta is not None:
        check_modulation(len(x), x.shape[1], gamma, beta)
    xs, norm_s = shortcut if shortcut is not None else (None, None)
    weight_s, bias_s = (norm_s.weight, norm_s.bias) if norm_s is not None else (None, None)
    out: Tensor = _NormFilmSwish.apply(  # type: ignore[no-untyped-call]
        x, norm.weight, norm.bias, gamma, beta, xs, weight_s, bias_s, norm, norm_s, pool
    )
    return out
