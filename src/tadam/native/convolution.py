"""3x3 convolution with a border of zeros by the native core's Winograd transform.

It multiplies a quarter as often as the direct convolution (Lavin and Gray, 2015).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from tadam.constant_weights import reused
from tadam.native import Finish, accepts, call, empty_images

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


def convolve(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(N, C, H, W) -> (N, K, H, W), and the moments of each filter's output: see `moments`."""
    y = empty_images(x, (len(x), len(weight), *x.shape[2:]))
    mean, variance = x.new_empty(4, len(weight)), x.new_empty(len(weight))
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


def _run(x: Tensor, packed: Tensor, filters: int, *options: Tensor | int | None) -> None:
    sizes = _sizes(x, filters)
    scratch = x.new_empty(call("conv_scratch", *sizes))
    call("conv", x, packed, *options, scratch, *sizes)


class Gradient(NamedTuple):
    """`scale * values + other_scale * other + shift`, (N, K, H, W), without computing it first.

    Scale is (T, K), other_scale and shift are (K,).
    """

    values: Tensor
    scale: Tensor
    other: Tensor
    other_scale: Tensor
    shift: Tensor


def convolve_backward(
    grad: Gradient, x: Tensor, weight: Tensor, needs_x: bool
) -> tuple[Tensor | None, Tensor]:
    """Gradients of x, if it is needed, and weight, from the gradient of `convolve`'s output."""
    grad_x = torch.empty_like(x) if needs_x else None
    grad_weight = torch.empty_like(weight)
    sizes = _sizes(x, len(weight))
    scratch = x.new_empty(call("conv_backward_scratch", *sizes))
    packed = pack(weight, forward=False) if needs_x else None
    tasks = len(grad.scale)
    call("conv_backward", *grad, tasks, x, packed, grad_x, grad_weight, scratch, *sizes)
    return grad_x, grad_weight
