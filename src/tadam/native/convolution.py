"""3x3 convolution with a border of zeros by the kernels' Winograd transform.

It multiplies a quarter as often as the direct convolution (Lavin and Gray, 2015).
"""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from tadam.native import library
from tadam.native.norm import Activated, Finish, empty_images
from tadam.native.signatures import Argument

_SIZES = ("threads", "images", "height", "width", "channels", "filters")
#: How the kernels number what follows a convolution.
_ACTIVATIONS = {None: 0, "swish": 1, "relu": 2}
_POOLS = {None: 0, "down": 1, "up": 2}
_NOTHING_FOLLOWS: dict[str, Argument] = {
    "scale": None,
    "shift": None,
    "side": None,
    "side_scale": None,
    "tasks": 1,
    "activation": _ACTIVATIONS[None],
    "pool": _POOLS[None],
}


def pack(weight: Tensor, forward: bool = True) -> Tensor:
    """(K, C, 3, 3) transformed and laid out for the forward pass or for the data gradient."""
    filters, channels = weight.shape[:2]
    depth, columns = (channels, filters) if forward else (filters, channels)
    packed = weight.new_empty(library.call("packed_floats", depth=depth, columns=columns))
    library.call(
        "pack_weights",
        weight=weight,
        packed=packed,
        depth=depth,
        columns=columns,
        turned=int(forward),
        threads=torch.get_num_threads(),
    )
    return packed


@cache
def _scratch_floats(kernel: str, sizes: tuple[int, ...]) -> int:
    """How much scratch memory a kernel wants; a network asks for the same few sizes again."""
    return library.call(f"{kernel}_scratch", **dict(zip(_SIZES, sizes, strict=True)))


def _scratch(kernel: str, x: Tensor, sizes: dict[str, int]) -> Tensor:
    return x.new_empty(_scratch_floats(kernel, tuple(sizes.values())))


def _sizes(x: Tensor, filters: int) -> dict[str, int]:
    images, channels, height, width = x.shape
    values = (torch.get_num_threads(), images, height, width, channels, filters)
    return dict(zip(_SIZES, values, strict=True))


def _as_source(x: Tensor | Activated) -> tuple[Tensor, dict[str, Argument]]:
    """The images in memory, and what is to be read there as a kernel takes it."""
    if isinstance(x, Tensor):
        return x, {"x": x, "x_scale": None, "x_shift": None, "x_tasks": 1, "x_relu": 0}
    images, scale, shift = x.scaled
    relu = int(x.activation == "relu")
    return images, {
        "x": images,
        "x_scale": scale,
        "x_shift": shift,
        "x_tasks": len(scale),
        "x_relu": relu,
    }


def convolve(x: Tensor | Activated, packed: Tensor, filters: int) -> tuple[Tensor, Tensor, Tensor]:
    """(N, C, H, W) -> (N, K, H, W), and the moments of each filter's output: see `moments`.

    Args:
        x: The images.
        packed: The weights, as `pack` gives them.
        filters: K.
    """
    images, source = _as_source(x)
    y = empty_images(images, (len(images), filters, *images.shape[2:]))
    mean, variance = images.new_empty(4, filters), images.new_empty(filters)
    outputs = {"y": y, "mean": mean, "variance": variance}
    sizes = _sizes(images, filters)
    scratch = _scratch("conv", images, sizes)
    library.call(
        "conv", **source, packed=packed, **outputs, **_NOTHING_FOLLOWS, scratch=scratch, **sizes
    )
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
    side_images, side_scale = side or (None, None)
    sizes = _sizes(x, filters)
    library.call(
        "conv",
        **_as_source(x)[1],
        packed=packed,
        y=y,
        mean=None,
        variance=None,
        scale=scale,
        shift=shift,
        side=side_images,
        side_scale=side_scale,
        tasks=tasks,
        activation=_ACTIVATIONS[finish.activation],
        pool=_POOLS[finish.pool],
        scratch=_scratch("conv", x, sizes),
        **sizes,
    )
    return y


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
    grad: Gradient, x: Tensor | Activated, weight: Tensor, packed: Tensor | None
) -> tuple[InputGradient | None, Tensor]:
    """Gradients of x and weight from the gradient of `convolve`'s output.

    Args:
        grad: Of the output.
        x: What was convolved.
        weight: (K, C, 3, 3).
        packed: The weights, packed for the data gradient; None if that is not needed.
    """
    images, source = _as_source(x)
    of_x = None
    if packed is not None:
        sums = None
        if isinstance(x, Activated):
            sums = images.new_empty(len(x.scaled.scale), 3, images.shape[1])
        of_x = InputGradient(torch.empty_like(images), sums)
    gradient_x, sums = of_x or (None, None)
    gradient_weight = torch.empty_like(weight)
    sizes = _sizes(images, len(weight))
    values, scale, other, other_scale, shift = grad
    library.call(
        "conv_backward",
        gradient=values,
        scale=scale,
        other=other,
        other_scale=other_scale,
        shift=shift,
        tasks=len(scale),
        **source,
        packed=packed,
        gradient_x=gradient_x,
        sums=sums,
        gradient_weight=gradient_weight,
        scratch=_scratch("conv_backward", images, sizes),
        **sizes,
    )
    return of_x, gradient_weight
