"""Pickled data files of others, read without running anything that is in them.

A pickle names functions and asks for them to be called. Here it gets stand-ins for the few that
NumPy's arrays need, and nothing else: not even NumPy itself is called with what the file says. What
comes out is made of dict, list, str, bytes, numbers and arrays of numbers.
"""

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tadam.errors import UserError

_NUMBERS = frozenset(
    {"b1", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"}
)  # no objects, no records
_PLAIN = (str, bytes, int, float, type(None))


class _Refused(Exception):
    """The file asks for something that no data file needs."""


class _StandIn:
    """What a pickle gets in place of a function; cannot be changed by it."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise _Refused("changes a function")


class _Dtype:
    """An array's type: the kind of number, then the byte order as its state."""

    __slots__ = ("_kind", "_order")

    def __init__(self, kind: str | bytes, *_: Any) -> None:
        name = kind.decode("latin-1") if isinstance(kind, bytes) else kind
        if name not in _NUMBERS:
            raise _Refused(f"holds an array of {name!r}")
        self._kind, self._order = name, "="

    def __setstate__(self, state: Any) -> None:
        order = state[1].decode("latin-1") if isinstance(state[1], bytes) else state[1]
        self._order = {"<": "<", ">": ">", "|": "|"}[order]

    @property
    def numpy(self) -> "np.dtype[Any]":
        return np.dtype(self._order + self._kind)


class _Array:
    """An array that gets its content as state, or at once."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: npt.NDArray[Any] = np.empty(0)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, content = state
        self.value = _array(content, dtype, shape, "F" if fortran else "C")


def _array(content: Any, dtype: _Dtype, shape: Any, order: Any) -> npt.NDArray[Any]:
    flat = np.frombuffer(content, dtype.numpy)
    if order in ("F", b"F"):
        return flat.reshape(tuple(shape)[::-1]).T
    return flat.reshape(tuple(shape))


def _from_buffer(content: Any, dtype: _Dtype, shape: Any, order: Any) -> _Array:
    array = _Array()
    array.value = _array(content, dtype, shape, order)
    return array


def _scalar(dtype: _Dtype, content: Any) -> Any:
    return np.frombuffer(content, dtype.numpy)[0].item()


def _encode(text: str, encoding: str | bytes) -> bytes:
    if encoding not in ("latin1", b"latin1"):
        raise _Refused(f"encodes as {encoding!r}")
    return text.encode("latin-1")


def _type_only(*_: Any) -> Any:
    raise _Refused("calls numpy.ndarray")


_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _type_only,  # only ever an argument of _reconstruct
    ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array(),
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("_codecs", "encode"): _encode,  # how Python 3 writes bytes that Python 2 can read
}


class _Unpickler(pickle._Unpickler):  # C's takes 64 GB where a file of ten bytes says "place 2^32"
    def find_class(self, module: str, name: str) -> Any:
        known = _ALLOWED.get((module.replace("numpy._core", "numpy.core"), name))
        if known is None:
            raise _Refused(f"asks for {f'{module}.{name}'[:80]!r}")
        return _StandIn(known)


class _WholeLines:
    """A file whose last line must end: half a name is not a name to be refused."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.read = file, file.read

    def readline(self) -> bytes:
        line = self._file.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        return line


def load_pickle(path: Path, limit: int) -> Any:
    """Reads a pickled data file.

    Args:
        path: The file.
        limit: Bytes beyond which it cannot be what it should be.
    """
    size = path.stat().st_size
    if size > limit:
        raise UserError(
            f"{path} has {size / 2**20:,.0f} MB, more than such a file can have: get it again"
        )
    with open(path, "rb") as file:
        return _load(file, str(path))


def load_pickled_bytes(content: bytes, name: str) -> Any:
    """Reads a pickle that is in memory already; `name` is for errors."""
    return _load(io.BytesIO(content), name)


def _load(file: BinaryIO, name: str) -> Any:
    try:
        # Python 2's strings as bytes: pixels stay what they are
        return _plain(_Unpickler(_WholeLines(file), encoding="bytes").load())
    except _Refused as refused:
        raise UserError(
            f"{name} {refused}, which no data file needs: nothing of it was run; "
            "delete it and get it from its makers"
        ) from None
    except MemoryError:
        raise out_of_memory(name) from None
    except Exception:  # a damaged pickle raises nearly anything, from KeyError to struct.error
        raise UserError(f"{name} is damaged or cut off: delete it and get it again") from None


def out_of_memory(name: str) -> UserError:
    """What to say of a file that asks for more memory than there is, rightly or not."""
    return UserError(
        f"{name} asks for more memory than there is: it is damaged, or has no room here"
    )


def _plain(root: Any) -> Any:
    """Puts arrays in the place of stand-ins and text in the place of keys, wherever they are."""
    top = [root]
    waiting: list[list[Any] | dict[Any, Any]] = [top]
    seen: set[int] = set()
    while waiting:
        container = waiting.pop()
        if id(container) in seen:
            continue
        seen.add(id(container))
        if isinstance(container, dict):
            items = {_text(key): value for key, value in container.items()}
            container.clear()
            container.update(items)
        keys = container if isinstance(container, dict) else range(len(container))
        for key in keys:
            value = container[key]
            if isinstance(value, _Array):
                container[key] = value.value
            elif isinstance(value, list | dict):
                waiting.append(value)
            elif not isinstance(value, _PLAIN):
                raise _Refused(f"holds a {type(value).__name__}")
    return top[0]


def _text(key: Any) -> Any:
    return key.decode("utf-8") if isinstance(key, bytes) else key
