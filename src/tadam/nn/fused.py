"""What follows a convolution in training, as one step of autograd that remembers little.

Plain autograd keeps the outputs of batch norm, FiLM, sum, swish and max-pool for the backward pass,
which is most of the memory of a training step. Here only where the maxima were is kept, and all
else is computed again from what the convolutions gave.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tadam.nn.film import film
from tadam.nn.first_order import refuse_second_order
from tadam.nn.max_pool import max_pool, max_pool_backward


def _statistics(x: Tensor, norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """Mean and 1/std of a batch, (C,) each; the running statistics move."""
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    momentum, running = norm.momentum or 0.0, (norm.running_mean, norm.running_var)
    if x.device.type == "cpu":
        mean, variance = torch.ops.aten.batch_norm_update_stats(x, *running, momentum)
        return mean, (variance + norm.eps).rsqrt()
    learnt = (norm.weight, norm.bias)
    _, mean, invstd = torch.native_batch_norm(x, *learnt, *running, True, momentum, norm.eps)
    return mean, invstd


def _affine(weight: Tensor, bias: Tensor, mean: Tensor, invstd: Tensor) -> tuple[Tensor, Tensor]:
    """Batch norm as a scale and a shift of each channel, (C,)."""
    scale = weight * invstd
    return scale, torch.addcmul(bias, mean, scale, value=-1)


def _norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor, moments: Sequence[Tensor], gamma: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of input, weight and bias of a norm with FiLM behind it, and two sums of `grad`.

    Args:
        grad: Behind FiLM, (T*N, C, H, W).
        x: Input of the norm.
        weight: The norm's, (C,).
        moments: Mean and 1/std.
        gamma: (T, C), or None for no FiLM.

    Returns:
        Input, weight, bias; and for each task the sums of `grad` times the input, normalised but
        for weight and bias, and of `grad` alone, (T, C) each.
    """
    mean, invstd = moments
    tasks = 1 if gamma is None else len(gamma)
    sums = [
        torch.ops.aten.native_batch_norm_backward(
            *parts, weight, None, None, mean, invstd, True, 0.0, [False, True, True]
        )[1:]
        for parts in zip(grad.chunk(tasks), x.chunk(tasks), strict=True)
    ]
    if gamma is None:
        of_weight, of_bias = with_input, alone = sums[0]
    else:
        with_input, alone = (torch.stack(parts) for parts in zip(*sums, strict=True))
        of_weight, of_bias = ((gamma * of_task).sum(dim=0) for of_task in (with_input, alone))
    # The statistics are of the batch, so all of it takes part in the gradient of each value.
    scale = weight * invstd
    share = scale / -(x.numel() // x.shape[1])
    factor = share * invstd * of_weight
    rest = torch.addcmul(share * of_bias, factor, mean, value=-1)
    out = film(x, factor[None], rest[None], out=torch.empty_like(x))
    scales = scale[None] if gamma is None else gamma * scale
    for part, of_part, own in zip(out.chunk(tasks), grad.chunk(tasks), scales, strict=True):
        part.addcmul_(of_part, own[:, None, None])
    return out, of_weight, of_bias, with_input, alone


def _before_swish(
    x: Tensor,
    affine: Sequence[Tensor],
    gamma: Tensor | None,
    beta: Tensor | None,
    side: Sequence[Tensor],
) -> Tensor:
    """`gamma * (scale * x + shift) + beta`, plus the side: shortcut, its scale and its shift."""
    scale, shift = (vector[None] for vector in affine)
    if gamma is not None and beta is not None:
        scale, shift = gamma * scale, torch.addcmul(beta, gamma, shift)
    if not side:
        return film(x, scale, shift, out=torch.empty_like(x))
    shortcut, side_scale, side_shift = side
    y = film(x, scale, shift + side_shift, out=torch.empty_like(x))
    return y.addcmul_(shortcut, side_scale[:, None, None])


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
        moments = _statistics(x, norm)
        affine = _affine(weight, bias, *moments)
        side: tuple[Tensor, ...] = ()
        if shortcut is not None and shortcut_norm is not None:
            side_moments = _statistics(shortcut, shortcut_norm)
            learnt = (shortcut_norm.weight, shortcut_norm.bias)
            side = (shortcut, *_affine(*learnt, *side_moments), learnt[0], *side_moments)
        y = F.silu(_before_swish(x, affine, gamma, beta, side[:3]), inplace=True)
        y, places = max_pool(y, pool) if pool else (y, None)
        ctx.save_for_backward(x, weight, bias, gamma, beta, places, *moments, *affine, *side)
        ctx.pool = pool
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_order()
        x, weight, bias, gamma, beta, places, *rest = ctx.saved_tensors
        moments, affine, side = rest[:2], rest[2:4], rest[4:]
        y = _before_swish(x, affine, gamma, beta, side[:3])
        if ctx.pool:
            grad = max_pool_backward(grad, y, ctx.pool, places)
        grad = torch.ops.aten.silu_backward(grad, y, grad_input=y)
        of_side: tuple[Tensor | None, ...] = (None, None, None)
        if side:
            of_side = _norm_backward(grad, side[0], side[3], side[4:], None)[:3]
        *of_norm, with_input, alone = _norm_backward(grad, x, weight, moments, gamma)
        of_film: tuple[Tensor | None, ...] = (None, None)
        if gamma is not None:
            of_film = (torch.addcmul(bias * alone, weight, with_input), alone)
        return *of_norm, *of_film, *of_side, None, None, None


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
    xs, norm_s = shortcut if shortcut is not None else (None, None)
    weight_s, bias_s = (norm_s.weight, norm_s.bias) if norm_s is not None else (None, None)
    out: Tensor = _NormFilmSwish.apply(  # type: ignore[no-untyped-call]
        x, norm.weight, norm.bias, gamma, beta, xs, weight_s, bias_s, norm, norm_s, pool
    )
    return out
