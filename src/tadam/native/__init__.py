"""The native core: C++ kernels, used where they were built and `TADAM_NATIVE` is not 0.

They are compiled when the package is installed, if there is a compiler. Everything here takes
float32 tensors on the CPU, images channels last in memory; ask `accepts` first.
"""

import ctypes
import functools
import hashlib
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

#: The libraries that a processor can run, the best first, by what PyTorch calls it; see setup.py.
_KINDS = {"AVX512": ("_avx512", "_avx2", ""), "AVX2": ("_avx2", "")}


@functools.cache
def _library() -> ctypes.CDLL | None:
    if os.environ.get("TADAM_NATIVE", "1") == "0":
        return None
    folder = Path(__file__).parent
    capability = torch.backends.cpu.get_cpu_capability()
    names = [f"_kernels{kind}.*" for kind in _KINDS.get(capability, ("",))]
    for path in (path for name in names for path in folder.glob(name)):
        try:
            library = ctypes.CDLL(str(path))
        except OSError:  # built for another machine
            continue
        if _is_current(library, folder):
            return library
        warnings.warn(
            f"{path.name} was built from other sources and is not used: install tadam again",
            stacklevel=2,
        )
    return None


def _is_current(library: ctypes.CDLL, folder: Path) -> bool:
    """Whether a library is of the sources beside it; a wheel has none, and fits its package."""
    sources = sorted(file for file in folder.iterdir() if file.suffix in (".cpp", ".h"))
    try:
        library.tadam_sources.restype = ctypes.c_char_p
        built_from: bytes = library.tadam_sources()
    except AttributeError:  # built before kernels said so
        return False
    contents = b"".join(file.read_bytes() for file in sources)
    return not sources or built_from.decode() == hashlib.sha256(contents).hexdigest()


def available() -> bool:
    """Whether the kernels were built and are switched on."""
    return _library() is not None


def core() -> str:
    """What computes here: `native AVX512`, `native AVX2`, `native` or `plain PyTorch`."""
    library = _library()
    if library is None:
        return "plain PyTorch"
    kind = Path(library._name).name.split(".")[0].removeprefix("_kernels")
    return "native" + kind.upper().replace("_", " ")


def accepts(x: Tensor) -> bool:
    """Whether the kernels can work on this tensor, (N, C, H, W)."""
    return (
        not torch.compiler.is_compiling()  # an exporter only sees PyTorch's own operations
        and not torch.is_autocast_enabled("cpu")  # what PyTorch gives back then is not float32
        and x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.numel() > 0
        and x.is_contiguous(memory_format=torch.channels_last)
        and available()
    )


def call(name: str, *arguments: Tensor | float | None) -> int:
    """Calls a kernel; tensors go as pointers, None as null."""
    function = _function(name)
    if function.argtypes is None:  # a place has one type in all calls
        function.argtypes = [_TYPES.get(type(a), ctypes.c_void_p) for a in arguments]
    result: int = function(*[a.data_ptr() if isinstance(a, Tensor) else a for a in arguments])
    return result


_TYPES = {int: ctypes.c_int64, float: ctypes.c_double}


@functools.cache
def _function(name: str) -> Any:
    library = _library()
    assert library is not None
    function = getattr(library, f"tadam_{name}")
    function.restype = ctypes.c_int64
    return function


class Scaled(NamedTuple):
    """A tensor (T*N, C, H, W) with a scale and a shift of its channels, (T, C) or (C,)."""

    x: Tensor
    scale: Tensor
    shift: Tensor


class Activated(NamedTuple):
    """The activation of `scale * x + shift`, to be computed wherever it is read."""

    scaled: Scaled
    activation: str

    def computed(self) -> Tensor:
        """In memory, (T*N, C, H, W)."""
        return norm(self.scaled, None, Finish(self.activation, None))


class Finish(NamedTuple):
    """What follows the norm.

    Attributes:
        activation: `swish` or `relu`.
        pool: 2x2 max-pool with sizes rounded `up` or `down`, or None.
    """

    activation: str
    pool: str | None


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """As `convolve` gives them: (4, C), the first row the mean; and the biased variance, (C,)."""
    channels = x.shape[1]
    mean, variance = x.new_empty(4, channels), x.new_empty(channels)
    rows = x.numel() // channels
    call("moments", x, mean, variance, rows, channels, torch.get_num_threads())
    return mean, variance


def affine(
    x: Tensor,
    moments: Tensor,
    variance: Tensor,
    norm: nn.BatchNorm2d,
    modulation: tuple[Tensor, Tensor] | tuple[None, None],
) -> Scaled:
    """Batch norm of x by the statistics of the batch, and FiLM; the running statistics move.

    Args:
        x: Input of the norm, (T*N, C, H, W).
        moments: (4, C); the mean is given, 1/std, scale and shift of the norm are filled in.
        variance: Biased, (C,).
        norm: The layer.
        modulation: gamma and beta, (T, C) each, or None twice.
    """
    assert norm.num_batches_tracked is not None
    norm.num_batches_tracked.add_(1)
    tasks, channels = len(modulation[0]) if modulation[0] is not None else 1, x.shape[1]
    scale, shift = x.new_empty(tasks, channels), x.new_empty(tasks, channels)
    learnt = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
    numbers = (float(norm.eps), float(norm.momentum or 0.0), x.numel() // channels)
    call("affine", moments, variance, *learnt, *modulation, scale, shift, *numbers, tasks, channels)
    return Scaled(x, scale, shift)


def affine_backward(
    sums: Tensor, place: int, moments: Tensor, gamma: Tensor | None, count: int
) -> tuple[Tensor, Tensor | None]:
    """Gradients of what makes a scale and a shift.

    Args:
        sums: As `norm_backward` gives them, (T, 3, C).
        place: Which of them has the norm's input: 1 main, 2 side.
        moments: As `affine` left them.
        gamma: (T, C), or None without FiLM.
        count: Values of a channel.

    Returns:
        (4, C): the gradients of weight and bias, and b and d of the input's gradient, which is
        `scale * grad + b * x + d`; and those of gamma and beta, (2, T, C).
    """
    tasks, _, channels = sums.shape
    gradients = sums.new_empty(4, channels)
    film = sums.new_empty(2, tasks, channels) if gamma is not None else None
    call("affine_backward", sums, place, moments, gamma, gradients, film, count, tasks, channels)
    return gradients, film


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
