"""The kernels' arguments as Python knows them, and how a call is checked before C sees it.

The library carries the same table, made from `kernels.h`; `library.py` refuses one that differs.
A kernel takes a pointer to a struct of its arguments, so a call names every one of them.
"""

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_CONV_SIZES = "int:threads int:images int:height int:width int:channels int:filters"
_ROW_SIZES = "int:tasks int:rows int:channels int:threads"
_POOL_SIZES = "int:tasks int:images int:height int:width int:ceil int:channels int:threads"
_CONV_SOURCE = "in:x in?:x_scale in?:x_shift int:x_tasks int:x_relu"
_NORM_SOURCE = "in:x in:scale in:shift in?:side in?:side_scale in?:side_shift int:relu"

#: Kind and name of each argument: `in` and `out` are float32 tensors on the CPU (with a question
#: mark, None is allowed), `bytes` is a uint8 array, `int` and `real` are numbers.
KERNELS = {
    "packed_floats": "int:depth int:columns",
    "pack_weights": "in:weight out:packed int:depth int:columns int:turned int:threads",
    "conv_scratch": _CONV_SIZES,
    "conv_backward_scratch": _CONV_SIZES,
    "conv": f"{_CONV_SOURCE} in:packed out:y out?:mean out?:variance in?:scale in?:shift in?:side "
    f"in?:side_scale int:tasks int:activation int:pool out:scratch {_CONV_SIZES}",
    "conv_backward": "in:gradient in:scale in:other in:other_scale in:shift int:tasks "
    f"{_CONV_SOURCE} in?:packed out?:gradient_x out?:sums out:gradient_weight out:scratch "
    f"{_CONV_SIZES}",
    "moments": "in:x out:mean out:variance int:rows int:channels int:threads",
    "affine": "out:moments in:variance in:weight in:bias out:running_mean out:running_variance "
    "in?:gamma in?:beta out:scale out:shift real:epsilon real:momentum int:count int:tasks "
    "int:channels",
    "affine_backward": "in:sums int:place in:moments in?:gamma out:gradients out?:film int:count "
    "int:tasks int:channels",
    "norm": f"{_NORM_SOURCE} out:y {_ROW_SIZES}",
    "norm_backward": f"in:gradient {_NORM_SOURCE} out:out out:sums {_ROW_SIZES}",
    "pooled_norm": f"{_NORM_SOURCE} out:y {_POOL_SIZES}",
    "pooled_norm_backward": f"in:gradient {_NORM_SOURCE} out:out out:sums {_POOL_SIZES}",
    "combine": f"in:gradient in:x in:a in:b in:d out:out {_ROW_SIZES}",
    "photo": "bytes:pixels in:weights in:mean in:std out:y int:height int:width int:size int:taps "
    "int:planes",
}

Argument = Tensor | npt.NDArray[np.uint8] | float | None
_FLOAT = torch.float32
_NONE = type(None)
#: Kind -> its ctypes type, and the Python types accepted besides a tensor.
_KINDS: dict[str, tuple[Any, tuple[type, ...]]] = {
    "in": (ctypes.c_void_p, ()),
    "out": (ctypes.c_void_p, ()),
    "in?": (ctypes.c_void_p, (_NONE,)),
    "out?": (ctypes.c_void_p, (_NONE,)),
    "bytes": (ctypes.c_void_p, (np.ndarray,)),
    "int": (ctypes.c_int64, (int,)),
    "real": (ctypes.c_double, (int, float)),
}


class Signature:
    """One kernel's arguments: the struct that C takes, and the check of what goes into it."""

    def __init__(self, kernel: str, arguments: str) -> None:
        self.kernel = kernel
        self.kinds = {name: kind for kind, name in (each.split(":") for each in arguments.split())}
        types = {name: _KINDS[kind] for name, kind in self.kinds.items()}
        self._struct: type[ctypes.Structure] = type(
            f"{kernel}_arguments",
            (ctypes.Structure,),
            {"_fields_": [(name, in_c) for name, (in_c, _) in types.items()]},
        )
        self._checks = [
            (name, in_c is ctypes.c_void_p and np.ndarray not in plain, plain)
            for name, (in_c, plain) in types.items()
        ]

    def __str__(self) -> str:
        """As the library describes it."""
        arguments = (f"{kind}:{name}" for name, kind in self.kinds.items())
        return " ".join([self.kernel, str(ctypes.sizeof(self._struct)), *arguments])

    def packed(self, arguments: Mapping[str, Argument]) -> ctypes.Structure:
        """The struct; raises TypeError unless every argument is there and of its kind."""
        if arguments.keys() != self.kinds.keys():
            wrong = sorted(arguments.keys() ^ self.kinds.keys())
            raise TypeError(f"{self.kernel}: missing or unknown arguments: {', '.join(wrong)}")
        values: list[float | None] = []
        for name, pointer, plain in self._checks:  # in hundreds of calls of a training step
            value = arguments[name]
            if isinstance(value, np.ndarray):
                if np.ndarray not in plain or value.dtype != np.uint8:
                    raise self._wrong(name, value)
                values.append(value.ctypes.data)
            elif type(value) in plain:
                values.append(value)  # type: ignore[arg-type]
            elif pointer and isinstance(value, Tensor) and value.dtype is _FLOAT and value.is_cpu:
                values.append(value.data_ptr())
            else:
                raise self._wrong(name, value)
        return self._struct(*values)

    def _wrong(self, name: str, value: Argument) -> TypeError:
        found = repr(value)
        if isinstance(value, (Tensor, np.ndarray)):
            found = f"a {value.dtype} tensor"
        return TypeError(f"{self.kernel}: {name} must be of kind {self.kinds[name]}, got {found}")


SIGNATURES = {kernel: Signature(kernel, arguments) for kernel, arguments in KERNELS.items()}


def table(signatures: Mapping[str, Signature] = SIGNATURES) -> str:
    """All of them, a line each, to be compared with `tadam_signatures()`."""
    return "".join(f"{signature}\n" for signature in signatures.values())
