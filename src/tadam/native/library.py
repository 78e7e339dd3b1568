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

#: The libraries that a processor can run, the best first, by what PyTorch calls it; see setup.py.
_KINDS = {"AVX512": ("_avx512", "_avx2", ""), "AVX2": ("_avx2", "")}
_FOLDER = Path(__file__).parent


@functools.cache
def loaded() -> ctypes.CDLL | None:
    """The best library that this processor can run and that fits this package, or None."""
    if os.environ.get("TADAM_NATIVE", "1") == "0":
        return None
    capability = torch.backends.cpu.get_cpu_capability()
    names = [f"_kernels{kind}.*" for kind in _KINDS.get(capability, ("",))]
    for path in (path for name in names for path in _FOLDER.glob(name)):
        try:
            library = ctypes.CDLL(str(path))
        except OSError:  # built for another machine
            continue
        problem = mismatch(library, _FOLDER)
        if problem is None:
            return library
        warnings.warn(f"{path.name} {problem} and is not used: install tadam again", stacklevel=2)
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
