"""What follows a convolution in training, as one step of autograd that remembers only its inputs.

Plain autograd keeps the outputs of batch norm, FiLM, sum, swish and max-pool for the backward pass,
which is most of the memory of a training step. Here they are computed again from what the
convolutions gave.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tadam.nn.film import film
from tadam.nn.first_order import refuse_second_order
from tadam.nn.max_pool import max_pool, max_pool_backward


def _normalise(x: Tensor, norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor, Tensor]:
    """Output, mean and 1/std of a batch; the running statistics move."""
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    momentum = norm.momentum or 0.0
    statistics = (norm.running_mean, norm.running_var)
    return torch.native_batch_norm(x, norm.weight, norm.bias, *statistics, True, momentum, norm.eps)


def _affine(weight: Tensor, bias: Tensor, mean: Tensor, invstd: Tensor) -> tuple[Tensor, Tensor]:
    """Batch norm as a scale and a shift of each channel, (C,)."""
    scale = weight * invstd
    return scale, bias - mean * scale


def _normalise_backward(
    grad: Tensor, x: Tensor, weight: Tensor, moments: list[Tensor], eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of input, weight and bias."""
    grads: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.native_batch_norm_backward(
        grad, x, weight, None, None, *moments, True, eps, [True, True, True]
    )
    return grads


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
        y, *moments = _normalise(x, norm)
        if gamma is not None and beta is not None:
            y = film(y, gamma, beta, out=y)
        if shortcut is not None and shortcut_norm is not None:
            residual, *more = _normalise(shortcut, shortcut_norm)
            y += residual
            moments += more
        y = F.silu(y, inplace=True)
        ctx.save_for_backward(
            x, weight, bias, gamma, beta, shortcut, shortcut_weight, shortcut_bias, *moments
        )
        ctx.eps, ctx.pool = norm.eps, pool
        return max_pool(y, pool)[0] if pool else y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_order()
        x, weight, bias, gamma, beta, shortcut, s_weight, s_bias, *moments = ctx.saved_tensors
        # Batch norm and FiLM together are one scale and one shift for each task and channel.
        scale, shift = _affine(weight, bias, *moments[:2])
        if gamma is None:
            y = film(x, scale[None], shift[None])
        else:
            y = film(x, gamma * scale, gamma * shift + beta)
        if shortcut is not None:
            s_scale, s_shift = _affine(s_weight, s_bias, *moments[2:])
            y += film(shortcut, s_scale[None], s_shift[None])
        if ctx.pool:
            grad = max_pool_backward(grad, y, ctx.pool, max_pool(F.silu(y), ctx.pool)[1])
        grad = torch.ops.aten.silu_backward(grad, y, grad_input=y)
        of_shortcut: tuple[Tensor | None, ...] = (None, None, None)
        if shortcut is not None:
            of_shortcut = _normalise_backward(grad, shortcut, s_weight, moments[2:], ctx.eps)
        grad_gamma = grad_beta = None
        if gamma is not None:
            tasks, channels = gamma.shape
            per_task = (tasks, -1, channels, *x.shape[2:])
            grad_beta = grad.view(per_task).sum(dim=(1, 3, 4))  # (T, C)
            # The normalised input is `scale * x + shift`.
            product = (grad * x).view(per_task).sum(dim=(1, 3, 4))
            grad_gamma = scale * product + shift * grad_beta
            grad = film(grad, gamma, torch.zeros_like(gamma), out=grad)
        of_norm = _normalise_backward(grad, x, weight, moments[:2], ctx.eps)
        return *of_norm, grad_gamma, grad_beta, *of_shortcut, None, None, None


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
