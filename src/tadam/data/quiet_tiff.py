"""Keeps libtiff from writing to stderr: what is wrong with a file, we say ourselves."""

import contextlib
import ctypes
import ctypes.util
import functools
from pathlib import Path

import PIL


@functools.cache
def silence_libtiff() -> bool:
    """Turns the handlers off that print; returns whether libtiff was found."""
    package = Path(PIL.__file__).parent
    bundled = [*package.parent.glob("pillow.libs/libtiff*"), *package.glob(".dylibs/libtiff*")]
    found = [str(path) for path in bundled] or [ctypes.util.find_library("tiff") or ""]
    silent = False
    for name in filter(None, found):  # without a name, CDLL would open this very program
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(name)
            for handler in ("TIFFSetErrorHandler", "TIFFSetWarningHandler"):
                setter = getattr(library, handler)
                setter.argtypes, setter.restype = [ctypes.c_void_p], ctypes.c_void_p
                setter(None)
            silent = True
    return silent
