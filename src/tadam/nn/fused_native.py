"""A conv unit on the native core: convolution, norm, FiLM, sum, activation and pool.

In training one step of autograd that remembers only the unit's input and the convolution's output;
otherwise all of it in one pass.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tadam import native
from tadam.native import Finish, Scaled
from tadam.native.convolution import (
    Gradient,
    convolve,
    convolve_and_finish,
    convolve_backward,
    pack,
    pays,
)
from tadam.nn.norm import running_affine


def _normalise(
    mean: Tensor, variance: Tensor, count: int, norm: nn.BatchNorm2d
) -> tuple[Tensor, Tensor, Tensor]:
    """Scale, shift and 1/std of a batch, (C,); the running statistics move."""
    momentum = norm.momentum or 0.0
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    norm.num_batches_tracked.add_(1)
    norm.running_mean.lerp_(mean, momentum)
    norm.running_var.lerp_(variance * (count / max(count - 1, 1)), momentum)
    invstd = (variance + norm.eps).rsqrt()
    scale = norm.weight * invstd
    return scale, norm.bias - mean * scale, invstd


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


class _ConvUnit(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        conv_weight: Tensor,
        weight: Tensor,
        bias: Tensor,
        gamma: Tensor | None,
        beta: Tensor | None,
        shortcut: Tensor | None,
        shortcut_weight: Tensor | None,
        shortcut_bias: Tensor | None,
        norm: nn.BatchNorm2d,
        shortcut_norm: nn.BatchNorm2d | None,
        finish: Finish,
    ) -> Tensor:
        ctx.winograd = pays(x, conv_weight)
        if ctx.winograd:
            y, mean, variance = convolve(x, conv_weight)
        else:
            y = F.conv2d(x, conv_weight, padding=1)
            mean, variance = native.moments(y)
        count = y.numel() // y.shape[1]
        scale, shift, invstd = _normalise(mean, variance, count, norm)
        if gamma is None or beta is None:
            main = Scaled(y, scale[None], shift[None])
        else:
            main = Scaled(y, gamma * scale, gamma * shift + beta)
        side: Scaled | None = None
        side_moments: tuple[Tensor, ...] = ()
        if shortcut is not None and shortcut_norm is not None:
            side_mean, side_variance = native.moments(shortcut)
            side_scale, side_shift, side_invstd = _normalise(
                side_mean, side_variance, count, shortcut_norm
            )
            side, side_moments = Scaled(shortcut, side_scale, side_shift), (side_mean, side_invstd)
        ctx.save_for_backward(
            x, conv_weight, gamma, mean, invstd, scale, shift, *main, *(side or ()), *side_moments
        )
        ctx.finish = finish
        return native.norm(main, side, finish)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, conv_weight, gamma, mean, invstd, scale, shift, *rest = ctx.saved_tensors
        main, side_moments = Scaled(*rest[:3]), rest[6:]
        side = Scaled(*rest[3:6]) if len(rest) > 3 else None
        grad = grad.contiguous(memory_format=torch.channels_last)
        grad, sums = native.norm_backward(grad, main, side, ctx.finish)
        total, product, side_product = sums.unbind(dim=1)  # (T, C) each
        count = main.x.numel() // main.x.shape[1]

        of_shortcut: tuple[Tensor | None, ...] = (None, None, None)
        if side is not None:
            of_weight, of_bias, b, d = _norm_backward(
                total.sum(dim=0), side_product.sum(dim=0), side.scale, side_moments, count
            )
            of_input = native.combine(grad, side.x, side.scale[None], b, d)
            of_shortcut = (of_input, of_weight, of_bias)
        of_gamma = of_beta = None
        if gamma is not None:
            of_gamma, of_beta = scale * product + shift * total, total
            total, product = gamma * total, gamma * product
        of_weight, of_bias, b, d = _norm_backward(
            total.sum(dim=0), product.sum(dim=0), scale, (mean, invstd), count
        )
        needs_x = ctx.needs_input_grad[0]
        if ctx.winograd:
            gradient = Gradient(grad, main.scale, main.x, b, d)
            of_x, of_conv = convolve_backward(gradient, x, conv_weight, needs_x)
        else:
            grad = native.combine(grad, main.x, main.scale, b, d)
            of_x, of_conv, _ = torch.ops.aten.convolution_backward(
                grad, x, conv_weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1,
                [needs_x, True, False],
            )  # fmt: skip
        ours = (of_x, of_conv, of_weight, of_bias, of_gamma, of_beta)
        return *ours, *of_shortcut, None, None, None


def train_unit(
    x: Tensor,
    conv: nn.Conv2d,
    norm: nn.BatchNorm2d,
    modulation: tuple[Tensor, Tensor] | None,
    shortcut: tuple[Tensor, nn.BatchNorm2d] | None,
    finish: Finish,
) -> Tensor:
    """See `tadam.nn.conv_unit.ConvUnit`; with the statistics of the batch, and gradients."""
    side, side_norm = shortcut if shortcut is not None else (None, None)
    out: Tensor = _ConvUnit.apply(  # type: ignore[no-untyped-call]
        x,
        conv.weight,
        norm.weight,
        norm.bias,
        *(modulation or (None, None)),
        side,
        *((side_norm.weight, side_norm.bias) if side_norm is not None else (None, None)),
        norm,
        side_norm,
        finish,
    )
    return out


def infer_unit(
    x: Tensor,
    conv: nn.Conv2d,
    norm: nn.BatchNorm2d,
    modulation: tuple[Tensor, Tensor] | None,
    shortcut: tuple[Tensor, nn.BatchNorm2d] | None,
    finish: Finish,
) -> Tensor:
    """See `tadam.nn.conv_unit.ConvUnit`; with running statistics and no gradients."""
    scale, shift = running_affine(norm)
    if modulation is None:
        scale, shift = scale[None], shift[None]
    else:
        gamma, beta = modulation
        scale, shift = gamma * scale, gamma * shift + beta
    if pays(x, conv.weight):
        side = None
        if shortcut is not None:
            side_scale, side_shift = running_affine(shortcut[1])
            side, shift = (shortcut[0], side_scale), shift + side_shift
        return convolve_and_finish(x, pack(conv.weight), scale, shift, side, finish)
    other = Scaled(shortcut[0], *running_affine(shortcut[1])) if shortcut is not None else None
    return native.norm(Scaled(F.conv2d(x, conv.weight, padding=1), scale, shift), other, finish)
