"""`norm_film_swish` on the native core: one pass over memory forward, two backward."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tadam import native
from tadam.nn.max_pool import max_pool, max_pool_backward


def _moments(x: Tensor, norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """Mean and 1/std of a batch, (C,); the running statistics move."""
    mean, variance = native.moments(x)
    count = x.numel() // x.shape[1]
    momentum = norm.momentum or 0.0
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    norm.num_batches_tracked.add_(1)
    norm.running_mean.lerp_(mean, momentum)
    norm.running_var.lerp_(variance * (count / max(count - 1, 1)), momentum)
    return mean, (variance + norm.eps).rsqrt()


def _norm_backward(
    total: Tensor, product: Tensor, scale: Tensor, moments: Sequence[Tensor], count: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of weight and bias, and the input's as `scale * grad + b * x + d`.

    Args:
        total: Sum of the gradient behind the norm, (C,).
        product: Sum of that gradient times the norm's input, (C,).
        scale: weight / std, (C,).
        moments: Mean and 1/std of the batch, (C,) each.
        count: Values of a channel.
    """
    mean, invstd = moments
    of_weight = invstd * (product - mean * total)
    b = -scale * invstd * of_weight / count
    return of_weight, total, b, -scale * total / count - b * mean


class NativeNormFilmSwish(torch.autograd.Function):
    """See `tadam.nn.fused.norm_film_swish`."""

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
        pool: bool,
    ) -> Tensor:
        mean, invstd = _moments(x, norm)
        scale = weight * invstd
        shift = bias - mean * scale
        if gamma is None or beta is None:
            main = (x, scale[None], shift[None])
        else:
            main = (x, gamma * scale, gamma * shift + beta)
        side: native.Scaled | None = None
        side_moments: tuple[Tensor, ...] = ()
        if shortcut is not None and shortcut_norm is not None:
            side_moments = side_mean, side_invstd = _moments(shortcut, shortcut_norm)
            side_scale = shortcut_norm.weight * side_invstd
            side = (shortcut, side_scale, shortcut_norm.bias - side_mean * side_scale)
        y = native.norm_swish(main, side)
        ctx.save_for_backward(
            gamma, mean, invstd, scale, shift, *main, *(side or ()), *side_moments
        )
        ctx.pool = pool
        return max_pool(y)[0] if pool else y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        gamma, mean, invstd, scale, shift, *rest = ctx.saved_tensors
        main: native.Scaled = tuple(rest[:3])
        side: native.Scaled | None = tuple(rest[3:6]) or None
        side_moments = rest[6:]
        x = main[0]
        if ctx.pool:
            y = native.norm_swish(main, side)
            grad = max_pool_backward(grad, y, max_pool(y)[1])
            grad = out = grad.contiguous(memory_format=torch.channels_last)  # ours to write over
            del y
        else:
            grad, out = grad.contiguous(memory_format=torch.channels_last), torch.empty_like(x)
        grad, sums = native.norm_swish_backward(grad, main, side, out)
        total, product, side_product = sums.unbind(dim=1)  # (T, C) each
        count = x.numel() // x.shape[1]

        of_shortcut: tuple[Tensor | None, ...] = (None, None, None)
        if side is not None:
            of_weight, of_bias, b, d = _norm_backward(
                total.sum(dim=0), side_product.sum(dim=0), side[1], side_moments, count
            )
            of_input = native.combine(grad, side[0], side[1][None], b, d, torch.empty_like(x))
            of_shortcut = (of_input, of_weight, of_bias)
        of_gamma = of_beta = None
        if gamma is not None:
            of_gamma, of_beta = scale * product + shift * total, total
            total, product = gamma * total, gamma * product
        of_weight, of_bias, b, d = _norm_backward(
            total.sum(dim=0), product.sum(dim=0), scale, (mean, invstd), count
        )
        of_x = native.combine(grad, x, main[1], b, d, out=grad)
        return of_x, of_weight, of_bias, of_gamma, of_beta, *of_shortcut, None, None, None
