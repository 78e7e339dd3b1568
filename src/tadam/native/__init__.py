"""The native core: C++ kernels, used where they were built and `TADAM_NATIVE` is not 0.

They are compiled when the package is installed, if there is a compiler. Everything here takes
float32 tensors on the CPU that are channels last in memory; ask `accepts` first.
"""

import ctypes
import functools
import os
from pathlib import Path

import torch
from torch import Tensor


@functools.cache
def _library() -> ctypes.CDLL | None:
    if os.environ.get("TADAM_NATIVE", "1") == "0":
        return None
    for path in Path(__file__).parent.glob("_kernels*"):
        try:
            return ctypes.CDLL(str(path))
        except OSError:  # built for another machine
            continue
    return None


def available() -> bool:
    """Whether the kernels were built and are switched on."""
    return _library() is not None


def accepts(x: Tensor) -> bool:
    """Whether the kernels can work on this tensor, (N, C, H, W)."""
    return (
        x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.numel() > 0
        and x.is_contiguous(memory_format=torch.channels_last)
        and available()
    )


def _call(name: str, *arguments: Tensor | int | None) -> None:
    """Calls a kernel; tensors go as pointers, None as null."""
    library = _library()
    assert library is not None
    getattr(library, name)(
        *(
            ctypes.c_int64(a)
            if isinstance(a, int)
            else ctypes.c_void_p(a.data_ptr() if a is not None else None)
            for a in arguments
        )
    )


def _rows(x: Tensor) -> int:
    return x.shape[0] * x.shape[2] * x.shape[3]


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of each channel, (C,)."""
    mean, variance = x.new_empty(x.shape[1]), x.new_empty(x.shape[1])
    _call("tadam_moments", x, mean, variance, _rows(x), x.shape[1])
    return mean, variance


#: A tensor (T*N, C, H, W) with a scale and a shift for its channels.
Scaled = tuple[Tensor, Tensor, Tensor]


def norm_swish(main: Scaled, side: Scaled | None) -> Tensor:
    """`swish(scale * x + shift + side)`; scale and shift are (T, C), those of the side (C,)."""
    x, scale, shift = main
    tasks, channels = scale.shape
    y = torch.empty_like(x)
    others = side or (None, None, None)
    rows = _rows(x) // tasks
    _call("tadam_norm_swish", x, scale, shift, *others, y, tasks, rows, channels)
    return y


def norm_swish_backward(
    grad: Tensor, main: Scaled, side: Scaled | None, out: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradient before swish into `out`, and its sums, alone and with both inputs, (T, 3, C)."""
    x, scale, shift = main
    tasks, channels = scale.shape
    sums = x.new_empty(tasks, 3, channels)
    others = side or (None, None, None)
    rows = _rows(x) // tasks
    _call(
        "tadam_norm_swish_backward",
        *(grad, x, scale, shift, *others, out, sums, tasks, rows, channels),
    )
    return out, sums


def combine(grad: Tensor, x: Tensor, a: Tensor, b: Tensor, d: Tensor, out: Tensor) -> Tensor:
    """`a * grad + b * x + d` into `out`; a is (T, C), b and d are (C,)."""
    tasks, channels = a.shape
    _call("tadam_combine", grad, x, a, b, d, out, tasks, _rows(x) // tasks, channels)
    return out


def winograd(kind: str, x: Tensor, out: Tensor, images: Tensor) -> Tensor:
    """One of Winograd's transforms: input, input_adjoint, output or output_adjoint.

    Args:
        kind: Which.
        x: (N, C, H, W), or (36, tiles, C) for output and input_adjoint.
        out: The other way round.
        images: Whichever of the two is (N, C, H, W).
    """
    count, channels, height, width = images.shape
    _call(f"tadam_winograd_{kind}", x, out, count, height, width, channels)
    return out
