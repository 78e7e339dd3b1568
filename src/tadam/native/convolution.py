"""3x3 convolution with a border of zeros by the native core's Winograd transform.

It multiplies a quarter as often as the direct convolution (Lavin and Gray, 2015).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from tadam.native import Activated, Finish, accepts, call, empty_images
from tadam.native.constant_weights import reused

#: Fewer channels than the kernels have lanes, or too few tiles for the weights' transform to pay.
_LEAST_CHANNELS, _LEAST_TILES = 16, 16


def pays(x: Tensor, weight: Tensor) -> bool:
    """Whether to convolve (N, C, H, W) with (K, C, 3, 3) here rather than by PyTorch."""
    if not accepts(x) or not accepts(weight) or min(weight.shape[:2]) < _LEAST_CHANNELS:
        return False
    tiles = len(x) * -(-x.shape[2] // 4) * -(-x.shape[3] // 4)
    return tiles >= _LEAST_TILES


def pack(weight: Tensor, forward: bool = True) -> Tensor:
    """(K, C, 3, 3) transformed and laid out for the forward pass or for the data gradient."""
    filters, channels = weight.shape[:2]
    depth, columns = (channels, filters) if forward else (filters, channels)

    def compute() -> Tensor:
        packed = weight.new_empty(call("packed_floats", depth, columns))
        call("pack_weights", weight, packed, depth, columns, int(forward), torch.get_num_threads())
        return packed

    return reused(weight, "packed forward" if forward else "packed backward", compute)


def _sizes(x: Tensor, filters: int) -> tuple[int, ...]:
    images, channels, height, width = x.shape
    return torch.get_num_threads(), images, height, width, channels, filters


def _as_source(x: Tensor | Activated) -> tuple[Tensor, tuple[Tensor | int | None, ...]]:
    """The images in memory, and what is to be read there as a kernel takes it."""
    if isinstance(x, Tensor):
        return x, (x, None, None, 1, 0)
    images, scale, shift = x.scaled
    return images, (images, scale, shift, len(scale), int(x.activation == "relu"))


def convolve(x: Tensor | Activated, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(N, C, H, W) -> (N, K, H, W), and the moments of each filter's output: see `moments`."""
    images, _ = _as_source(x)
    y = empty_images(images, (len(images), len(weight), *images.shape[2:]))
    mean, variance = images.new_empty(4, len(weight)), images.new_empty(len(weight))
    _run(x, pack(weight), len(weight), y, mean, variance, None, None, None, None, 1, 0, 0)
    return y, mean, variance


def convolve_and_finish(
    x: Tensor,
    packed: Tensor,
    scale: Tensor | None,
    shift: Tensor,
    side: tuple[Tensor, Tensor | None] | None,
    finish: Finish,
) -> Tensor:
    """`pool(act(scale * conv(x) + shift + side))`.

    Args:
        x: (N, C, H, W).
        packed: The weights, as `pack` gives them.
        scale: (T, K); None for 1.
        shift: (T, K).
        side: Images (N, K, H, W) and their scale, (K,), or None for 1.
        finish: Activation and pool.
    """
    tasks, filters = shift.shape
    y = empty_images(x, (len(x), filters, *x.shape[2:]), finish.pool)
    activation = {"swish": 1, "relu": 2}[finish.activation]
    pool = {None: 0, "down": 1, "up": 2}[finish.pool]
    sides = side or (None, None)
    _run(x, packed, filters, y, None, None, scale, shift, *sides, tasks, activation, pool)
    return y


def _run(
    x: Tensor | Activated, packed: Tensor, filters: int, *options: Tensor | int | None
) -> None:
    images, source = _as_source(x)
    sizes = _sizes(images, filters)
    scratch = images.new_empty(call("conv_scratch", *sizes))
    call("conv", *source, packed, *options, scratch, *sizes)


class Gradient(NamedTuple):
    """`scale * values + other_scale * other + shift`, (N, K, H, W), without computing it first.

    Scale is (T, K), other_scale and shift are (K,).
    """

    values: Tensor
    scale: Tensor
    other: Tensor
    other_scale: Tensor
    shift: Tensor


class InputGradient(NamedTuple):
    """Of a convolution's input, (N, C, H, W).

    If that is an activation, the gradient before it, and its sums as `norm_backward` gives them.
    """

    values: Tensor
    sums: Tensor | None


def convolve_backward(
    grad: Gradient, x: Tensor | Activated, weight: Tensor, needs_x: bool
) -> tuple[InputGradient | None, Tensor]:
    """Gradients of x, if it is needed, and weight, from the gradient of `convolve`'s output."""
    images, source = _as_source(x)
    of_x = None
    if needs_x:
        sums = None
        if isinstance(x, Activated):
            sums = images.new_empty(len(x.scaled.scale), 3, images.shape[1])
        of_x = InputGradient(torch.empty_like(images), sums)
    grad_weight = torch.empty_like(weight)
    sizes = _sizes(images, len(weight))
    scratch = images.new_empty(call("conv_backward_scratch", *sizes))
    packed = pack(weight, forward=False) if needs_x else None
    out = (*(of_x or (None, None)), grad_weight)
    call("conv_backward", *grad, len(grad.scale), *source, packed, *out, scratch, *sizes)
    return of_x, grad_weight
