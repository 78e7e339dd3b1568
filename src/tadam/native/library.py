"""Finds and loads the compiled kernels, and calls them."""

import ctypes
import functools
import hashlib
import os
import warnings
from pathlib import Path
from typing import Any

import torch

from tadam.native.signatures import SIGNATURES, Argument, table
from tadam.system.torchrun import place

#: The libraries that a processor can run, the best first, by what PyTorch calls it; see setup.py.
_KINDS = {"AVX512": ("_avx512", "_avx2", ""), "AVX2": ("_avx2", "")}
_FOLDER = Path(__file__).parent
_REMEDY = (
    "tadam runs in plain PyTorch, which is slower on a CPU; where there is a C++ compiler, "
    "`pip install --force-reinstall --no-deps --no-binary tadam-fewshot tadam-fewshot` builds it; "
    "TADAM_NATIVE=0 hides this note"
)


class NativeCoreMissing(UserWarning):
    """Everything works, in plain PyTorch: slower on a CPU. Given once a process."""


@functools.cache
def loaded() -> ctypes.CDLL | None:
    """The best library that this processor can run and that fits this package, or None."""
    if os.environ.get("TADAM_NATIVE", "1") == "0":
        return None
    capability = torch.backends.cpu.get_cpu_capability()
    names = [f"_kernels{kind}.*" for kind in _KINDS.get(capability, ("",))]
    problem = "was not built when tadam was installed"
    for path in (path for name in names for path in _FOLDER.glob(name)):
        try:
            library = ctypes.CDLL(str(path))
        except OSError as error:  # built for another machine, or without OpenMP's library
            problem = f"cannot be loaded ({error})"
            continue
        misfit = mismatch(library, _FOLDER)
        if misfit is None:
            return library
        problem = f"is not used, because {path.name} {misfit}"
    if place().local_rank == 0:
        warnings.warn(f"the native core {problem}: {_REMEDY}", NativeCoreMissing, stacklevel=2)
    return None


def mismatch(library: ctypes.CDLL, folder: Path) -> str | None:
    """How a library differs from the package in a folder; None if it fits.

    A wheel has no sources beside its library; the signatures are compared all the same.
    """
    sources = sorted(file for file in folder.iterdir() if file.suffix in (".cpp", ".h"))
    try:
        built_from, signatures = (
            _text(library, name) for name in ("tadam_sources", "tadam_signatures")
        )
    except AttributeError:  # built before libraries described themselves
        return "was built from older sources"
    contents = b"".join(file.read_bytes() for file in sources)
    if sources and built_from != hashlib.sha256(contents).hexdigest():
        return "was built from other sources"
    # A kernel whose arguments differ from Python's would read and write arbitrary memory.
    return None if signatures == table() else "has kernels with other arguments"


def _text(library: ctypes.CDLL, name: str) -> str:
    function = getattr(library, name)
    function.restype = ctypes.c_char_p
    text: bytes = function()
    return text.decode()


@functools.cache
def _kernel(name: str) -> Any:
    library = loaded()
    assert library is not None
    function = getattr(library, f"tadam_{name}")
    function.restype, function.argtypes = ctypes.c_int64, [ctypes.c_void_p]
    return function


def call(name: str, **arguments: Argument) -> int:
    """Calls a kernel, all of its arguments by name; TypeError if they do not fit its signature."""
    struct = SIGNATURES[name].packed(arguments)
    result: int = _kernel(name)(ctypes.byref(struct))
    return result
