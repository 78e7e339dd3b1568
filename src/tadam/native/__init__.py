"""The native core: C++ kernels, used where they were built and `TADAM_NATIVE` is not 0.

They are compiled when the package is installed, if there is a compiler. Everything here takes
float32 tensors on the CPU, images channels last in memory; ask `accepts` first.
"""

import ctypes
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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
        and not torch.compiler.is_compiling()  # an exporter only sees PyTorch's own operations
    )


def call(name: str, *arguments: Tensor | int | None) -> int:
    """Calls a kernel; tensors go as pointers, None as null."""
    library = _library()
    assert library is not None
    function = getattr(library, f"tadam_{name}")
    function.restype = ctypes.c_int64
    result: int = function(
        *(
            ctypes.c_int64(a)
            if isinstance(a, int)
            else ctypes.c_void_p(a.data_ptr() if a is not None else None)
            for a in arguments
        )
    )
    return result


class Scaled(NamedTuple):
    """A tensor (T*N, C, H, W) with a scale and a shift of its channels, (T, C) or (C,)."""

    x: Tensor
    scale: Tensor
    shift: Tensor


class Finish(NamedTuple):
    """What follows the norm.

    Attributes:
        activation: `swish` or `relu`.
        pool: 2x2 max-pool with sizes rounded `up` or `down`, or None.
    """

    activation: str
    pool: str | None


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of each channel, (C,)."""
    channels = x.shape[1]
    mean, variance = x.new_empty(channels), x.new_empty(channels)
    rows = x.numel() // channels
    call("moments", x, mean, variance, rows, channels, torch.get_num_threads())
    return mean, variance


def norm(main: Scaled, side: Scaled | None, finish: Finish) -> Tensor:
    """`pool(act(scale * x + shift + side))`; the side's scale and shift are (C,)."""
    y = empty_images(main.x, main.x.shape, finish.pool)
    kind = "pooled_norm" if finish.pool else "norm"
    call(kind, *_inputs(main, side, finish), y, *_sizes(main, finish))
    return y


def norm_backward(
    grad: Tensor, main: Scaled, side: Scaled | None, finish: Finish
) -> tuple[Tensor, Tensor]:
    """Gradient before the activation, and its sums, alone and with both inputs, (T, 3, C)."""
    out = torch.empty_like(main.x)
    sums = main.x.new_empty(len(main.scale), 3, main.x.shape[1])
    kind = "pooled_norm_backward" if finish.pool else "norm_backward"
    call(kind, grad, *_inputs(main, side, finish), out, sums, *_sizes(main, finish))
    return out, sums


def _inputs(main: Scaled, side: Scaled | None, finish: Finish) -> tuple[Tensor | int | None, ...]:
    return *main, *(side or (None, None, None)), int(finish.activation == "relu")


def _sizes(main: Scaled, finish: Finish) -> tuple[int, ...]:
    tasks = len(main.scale)
    images, channels, height, width = main.x.shape
    threads = torch.get_num_threads()
    if finish.pool:
        up = int(finish.pool == "up")
        return tasks, images // tasks, height, width, up, channels, threads
    return tasks, images // tasks * height * width, channels, threads


def _pooled(shape: Sequence[int], pool: str | None) -> tuple[int, ...]:
    """(N, C, H, W) behind the pool."""
    images, channels, height, width = shape
    up = int(pool == "up")
    return (images, channels, (height + up) // 2, (width + up) // 2) if pool else tuple(shape)


def empty_images(like: Tensor, shape: Sequence[int], pool: str | None = None) -> Tensor:
    """Memory for (N, C, H, W), channels last, H and W as they were before the pool."""
    return torch.empty(_pooled(shape, pool), dtype=like.dtype, memory_format=torch.channels_last)


def combine(grad: Tensor, x: Tensor, a: Tensor, b: Tensor, d: Tensor) -> Tensor:
    """`a * grad + b * x + d`; a is (T, C), b and d are (C,)."""
    out = torch.empty_like(x)
    tasks, channels = a.shape
    rows = x.numel() // (tasks * channels)
    call("combine", grad, x, a, b, d, out, tasks, rows, channels, torch.get_num_threads())
    return out
