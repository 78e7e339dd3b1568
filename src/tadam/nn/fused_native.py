"""A conv unit on the native core: convolution, norm, FiLM, sum, activation and pool.

In training one step of autograd that remembers only the unit's input and the convolution's output;
otherwise all of it in one pass.
"""

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
            y, moments, variance = convolve(x, conv_weight)
        else:
            y = F.conv2d(x, conv_weight, padding=1)
            moments, variance = native.moments(y)
        film = (gamma, beta) if gamma is not None and beta is not None else (None, None)
        main = native.affine(y, moments, variance, norm, film)
        saved = [x, conv_weight, gamma, moments, *main]
        side = None
        if shortcut is not None and shortcut_norm is not None:
            side_moments, side_variance = native.moments(shortcut)
            side = native.affine(shortcut, side_moments, side_variance, shortcut_norm, (None, None))
            saved += [side_moments, *side]
        ctx.save_for_backward(*saved)
        ctx.finish = finish
        return native.norm(main, side, finish)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, conv_weight, gamma, moments, *rest = ctx.saved_tensors
        main = Scaled(*rest[:3])
        side = Scaled(*rest[4:]) if len(rest) > 3 else None
        count = main.x.numel() // main.x.shape[1]
        grad = grad.contiguous(memory_format=torch.channels_last)
        grad, sums = native.norm_backward(grad, main, side, ctx.finish)

        of_shortcut: tuple[Tensor | None, ...] = (None, None, None)
        if side is not None:
            (of_weight, of_bias, b, d), _ = native.affine_backward(sums, 2, rest[3], None, count)
            of_shortcut = (native.combine(grad, side.x, side.scale, b, d), of_weight, of_bias)
        (of_weight, of_bias, b, d), of_film = native.affine_backward(sums, 1, moments, gamma, count)
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
        of_both = (None, None) if of_film is None else of_film.unbind()
        return of_x, of_conv, of_weight, of_bias, *of_both, *of_shortcut, None, None, None


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
        *((m.contiguous() for m in modulation) if modulation is not None else (None, None)),
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
