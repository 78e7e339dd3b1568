"""The kernels' arguments as Python knows them, and how a call is checked before C sees it.

The library carries the same table, made from `kernels.h`; `library.py` refuses one that differs.
A kernel takes a pointer to a struct of its arguments, so a call names every one of them.
"""

import ctypes
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_CONV_SIZES = "int:threads int:images int:height int:width int:channels int:filters"
_ROW_SIZES = "int:tasks int:rows int:channels int:threads"
_POOL_SIZES = "int:tasks int:images int:height int:width int:ceil int:channels int:threads"
_CONV_SOURCE = "in:x in?:x_scale in?:x_shift int:x_tasks int:x_relu"
_NORM_SOURCE = "in:x in:scale in:shift in?:side in?:side_scale in?:side_shift int:relu"

#: Kind and name of each argument: `in` and `out` are float32 tensors on the CPU (with a question
#: mark, None is allowed), `int` and `real` are numbers.
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
}

Argument = Tensor | float | None
_NUMBERS: dict[str, tuple[Any, tuple[type, ...]]] = {
    "int": (ctypes.c_int64, (int,)),
    "real": (ctypes.c_double, (int, float)),
}


class Signature:
    """One kernel's arguments: the struct that C takes, and the check of what goes into it."""

    def __init__(self, kernel: str, arguments: str) -> None:
        self.kernel = kernel
        self.kinds = {name: kind for kind, name in (each.split(":") for each in arguments.split())}
        fields = [
            (name, _NUMBERS[kind][0] if kind in _NUMBERS else ctypes.c_void_p)
            for name, kind in self.kinds.items()
        ]
        self._struct: type[ctypes.Structure] = type(
            f"{kernel}_arguments", (ctypes.Structure,), {"_fields_": fields}
        )

    def __str__(self) -> str:
        """As the library describes it."""
        arguments = (f"{kind}:{name}" for name, kind in self.kinds.items())
        return " ".join([self.kernel, str(ctypes.sizeof(self._struct)), *arguments])

    def packed(self, arguments: Mapping[str, Argument]) -> ctypes.Structure:
        """The struct; raises TypeError unless every argument is there and of its kind."""
        if arguments.keys() != self.kinds.keys():
            wrong = sorted(arguments.keys() ^ self.kinds.keys())
            raise TypeError(f"{self.kernel}: missing or unknown arguments: {', '.join(wrong)}")
        kinds = self.kinds
        return self._struct(*[self._plain(name, kinds[name], arguments[name]) for name in kinds])

    def _plain(self, name: str, kind: str, value: Argument) -> float | None:
        """What ctypes takes; tensors go as pointers, None as null."""
        if kind in _NUMBERS:
            if type(value) in _NUMBERS[kind][1]:
                return value  # type: ignore[return-value]
        elif isinstance(value, Tensor):
            if value.dtype is torch.float32 and value.is_cpu:
                return value.data_ptr()
        elif value is None and kind.endswith("?"):
            return None
        found = f"a {value.dtype} tensor" if isinstance(value, Tensor) else repr(value)
        raise TypeError(f"{self.kernel}: {name} must be of kind {kind}, got {found}")


SIGNATURES = {kernel: Signature(kernel, arguments) for kernel, arguments in KERNELS.items()}


def table(signatures: Mapping[str, Signature] = SIGNATURES) -> str:
    """All of them, a line each, to be compared with `tadam_signatures()`."""
    return "".join(f"{signature}\n" for signature in signatures.values())
