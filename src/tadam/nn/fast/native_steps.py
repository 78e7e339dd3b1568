"""Conv units on the native core: convolution, norm, FiLM, sum, activation and pool.

In training one step of autograd for several units, that remembers only their input and the output
of each convolution; otherwise all of a unit in one pass.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tadam.native import norm as kernels
from tadam.native.convolution import (
    Gradient,
    InputGradient,
    convolve,
    convolve_and_finish,
    convolve_backward,
)
from tadam.native.norm import Activated, Finish, Scaled
from tadam.nn.conv_unit import ConvUnit
from tadam.nn.fast.guard import pays
from tadam.nn.fast.switch import refuse_second_order
from tadam.nn.fast.weights import packed
from tadam.nn.norm import running_affine


def _convolved(x: Tensor | Activated, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The convolution's output and its moments; see `convolve`."""
    if pays(x if isinstance(x, Tensor) else x.scaled.x, weight):
        return convolve(x, packed(weight), len(weight))
    y = _convolved_plainly(x if isinstance(x, Tensor) else x.computed(), weight)
    return y, *kernels.moments(y)


def _convolved_plainly(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(x, weight, padding=1).contiguous(memory_format=torch.channels_last)


def _convolved_backward(
    grad: Gradient, x: Tensor | Activated, weight: Tensor, needs_x: bool
) -> tuple[InputGradient | None, Tensor]:
    """See `convolve_backward`."""
    if pays(x if isinstance(x, Tensor) else x.scaled.x, weight):
        return convolve_backward(grad, x, weight, packed(weight, False) if needs_x else None)
    images = x if isinstance(x, Tensor) else x.computed()
    of_x, of_weight, _ = torch.ops.aten.convolution_backward(
        kernels.combine(grad.values, grad.other, grad.scale, grad.other_scale, grad.shift),
        images, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [needs_x, True, False],
    )  # fmt: skip
    if not needs_x:
        return None, of_weight
    if isinstance(x, Tensor):
        return InputGradient(of_x, None), of_weight
    finish = Finish(x.activation, None)
    return InputGradient(*kernels.norm_backward(of_x, x.scaled, None, finish)), of_weight


class _Layers(NamedTuple):
    """The parts of a chain of units that are no tensors."""

    norms: list[nn.BatchNorm2d]
    shortcut_norm: nn.BatchNorm2d | None
    finish: Finish


class _Chain(torch.autograd.Function):
    """Units one after the other, of which the last has the shortcut and the pool."""

    @staticmethod
    def forward(
        ctx: Any, layers: _Layers, x: Tensor, shortcut: Tensor | None, *learnt: Tensor | None
    ) -> Tensor:
        # learnt: convolution, norm's weight and bias, gamma and beta of each unit; the shortcut's
        norms, shortcut_norm, finish = layers
        saved: list[Tensor | None] = [x]
        source: Tensor | Activated = x
        for i, norm in enumerate(norms):
            weight, _, _, gamma, beta = learnt[5 * i : 5 * i + 5]
            assert weight is not None
            y, moments, variance = _convolved(source, weight)
            film = (gamma, beta) if gamma is not None and beta is not None else (None, None)
            main = kernels.affine(y, moments, variance, norm, film)
            saved += [weight, gamma, moments, *main]
            source = Activated(main, finish.activation)
        side = None
        if shortcut is not None and shortcut_norm is not None:
            moments, variance = kernels.moments(shortcut)
            side = kernels.affine(shortcut, moments, variance, shortcut_norm, (None, None))
            saved += [moments, *side]
        ctx.save_for_backward(*saved)
        ctx.units, ctx.finish = len(norms), finish
        return kernels.norm(main, side, finish)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_order()
        x, *rest = ctx.saved_tensors
        units = [rest[6 * i : 6 * i + 6] for i in range(ctx.units)]
        side_moments, *side_parts = rest[6 * ctx.units :] or [None]
        side = Scaled(*side_parts) if side_parts else None
        count = units[0][3].numel() // units[0][3].shape[1]
        grad = grad.contiguous(memory_format=torch.channels_last)
        last = Scaled(*units[-1][3:])
        of_input: InputGradient | None
        of_input = InputGradient(*kernels.norm_backward(grad, last, side, ctx.finish))

        of_side: tuple[Tensor | None, ...] = (None, None, None)
        if side is not None:
            values, sums = of_input
            assert sums is not None
            (of_weight, of_bias, b, d), _ = kernels.affine_backward(
                sums, 2, side_moments, None, count
            )
            of_side = (kernels.combine(values, side.x, side.scale, b, d), of_weight, of_bias)
        of_units: list[Tensor | None] = []
        for i, (weight, gamma, moments, y, scale, _) in reversed(list(enumerate(units))):
            assert of_input is not None
            assert of_input.sums is not None
            (of_weight, of_bias, b, d), of_film = kernels.affine_backward(
                of_input.sums, 1, moments, gamma, count
            )
            source = Activated(Scaled(*units[i - 1][3:]), ctx.finish.activation) if i else x
            gradient = Gradient(of_input.values, scale, y, b, d)
            needs_x = bool(i) or ctx.needs_input_grad[1]
            of_input, of_conv = _convolved_backward(gradient, source, weight, needs_x)
            of_both = (None, None) if of_film is None else of_film.unbind()
            of_units = [of_conv, of_weight, of_bias, *of_both, *of_units]
        of_x = of_input.values if of_input is not None else None
        return None, of_x, of_side[0], *of_units, *of_side[1:]


def train_units(
    x: Tensor,
    units: Sequence[ConvUnit],
    film: Sequence[tuple[Tensor, Tensor] | None],
    shortcut: tuple[Tensor, nn.BatchNorm2d] | None,
    finish: Finish,
) -> Tensor:
    """Units one after the other, with the statistics of the batch, and gradients.

    Args:
        x: (T*N, C, H, W).
        units: Their weights are used and their running statistics updated.
        film: Modulation of each.
        shortcut: Of the last unit: the output of the shortcut's convolution, and its norm.
        finish: The activation of all, and the pool of the last.
    """
    learnt: list[Tensor | None] = []
    for unit, modulation in zip(units, film, strict=True):
        learnt += [unit.conv.weight, unit.norm.weight, unit.norm.bias]
        learnt += [m.contiguous() for m in modulation] if modulation else [None, None]
    side, side_norm = shortcut or (None, None)
    if side_norm is not None:
        learnt += [side_norm.weight, side_norm.bias]
    layers = _Layers([unit.norm for unit in units], side_norm, finish)
    out: Tensor = _Chain.apply(layers, x, side, *learnt)  # type: ignore[no-untyped-call]
    return out


def infer_unit(
    x: Tensor,
    unit: ConvUnit,
    modulation: tuple[Tensor, Tensor] | None,
    shortcut: tuple[Tensor, nn.BatchNorm2d] | None,
    finish: Finish,
) -> Tensor:
    """See `ConvUnit`; with running statistics and no gradients."""
    weight = unit.conv.weight
    scale, shift = running_affine(unit.norm)
    if modulation is None:
        scale, shift = scale[None], shift[None]
    else:
        gamma, beta = modulation
        scale, shift = gamma * scale, gamma * shift + beta
    if pays(x, weight):
        side = None
        if shortcut is not None:
            side_scale, side_shift = running_affine(shortcut[1])
            side, shift = (shortcut[0], side_scale), shift + side_shift
        return convolve_and_finish(x, packed(weight), scale, shift, side, finish)
    other = Scaled(shortcut[0], *running_affine(shortcut[1])) if shortcut is not None else None
    y = _convolved_plainly(x, weight)
    return kernels.norm(Scaled(y, scale, shift), other, finish)
