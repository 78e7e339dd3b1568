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


#: A tensor (T*N, C, H, W) with a scale and a shift for its channels.
Scaled = tuple[Tensor, Tensor, Tensor]

_LANES = 16


def _fold(x: Tensor, tasks: int) -> int:
    """How many rows of channels may be taken as one, so that narrow ones fill the lanes."""
    channels = x.shape[1]
    values = x.numel() // tasks
    return _LANES // channels if _LANES % channels == 0 and values % _LANES == 0 else 1


def _wide(vectors: Tensor | None, fold: int) -> Tensor | None:
    """(..., C) -> (..., fold * C), the same for each of the rows taken as one."""
    return vectors if vectors is None or fold == 1 else vectors.tile((fold,))


def _sizes(x: Tensor, tasks: int, fold: int) -> tuple[int, int, int]:
    """Tasks, rows of a task, channels of a row."""
    channels = fold * x.shape[1]
    return tasks, x.numel() // (tasks * channels), channels


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of each channel, (C,)."""
    fold = _fold(x, 1)
    _, rows, channels = _sizes(x, 1, fold)
    mean, variance = x.new_empty(channels), x.new_empty(channels)
    _call("tadam_moments", x, mean, variance, rows, channels)
    if fold == 1:
        return mean, variance
    means, variances = mean.view(fold, -1), variance.view(fold, -1)
    return means.mean(dim=0), variances.mean(dim=0) + means.var(dim=0, correction=0)


def norm_swish(main: Scaled, side: Scaled | None) -> Tensor:
    """`swish(scale * x + shift + side)`; scale and shift are (T, C), those of the side (C,)."""
    x, tasks = main[0], len(main[1])
    fold = _fold(x, tasks)
    y = torch.empty_like(x)
    _call("tadam_norm_swish", *_inputs(main, side, fold), y, *_sizes(x, tasks, fold))
    return y


def norm_swish_backward(
    grad: Tensor, main: Scaled, side: Scaled | None, out: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradient before swish into `out`, and its sums, alone and with both inputs, (T, 3, C)."""
    x, tasks = main[0], len(main[1])
    fold = _fold(x, tasks)
    sizes = _sizes(x, tasks, fold)
    sums = x.new_empty(tasks, 3, sizes[2])
    _call("tadam_norm_swish_backward", grad, *_inputs(main, side, fold), out, sums, *sizes)
    return out, sums.view(tasks, 3, fold, -1).sum(dim=2)


def _inputs(main: Scaled, side: Scaled | None, fold: int) -> tuple[Tensor | None, ...]:
    others = side or (None, None, None)
    wide = [_wide(vectors, fold) for vectors in (*main[1:], *others[1:])]
    return main[0], *wide[:2], others[0], *wide[2:]


def combine(grad: Tensor, x: Tensor, a: Tensor, b: Tensor, d: Tensor, out: Tensor) -> Tensor:
    """`a * grad + b * x + d` into `out`; a is (T, C), b and d are (C,)."""
    fold = _fold(x, len(a))
    wide = [_wide(vectors, fold) for vectors in (a, b, d)]
    _call("tadam_combine", grad, x, *wide, out, *_sizes(x, len(a), fold))
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
