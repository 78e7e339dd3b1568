"""Reads other people's pickled data files without running anything in them.

A pickle names functions and asks for them to be called. Here it gets stand-ins for the few that
NumPy arrays need, and nothing else: the file cannot even call NumPy itself. The result consists of
dict, list, str, bytes, numbers and arrays of numbers.
"""

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
import numpy.typing as npt

from tadam.data.archive import REMEDY
from tadam.data.failures import in_a_sentence
from tadam.errors import UserError

#: Levels of tuples in tuples: an array's state has its shape in it. C code that visits a tuple,
#: such as its hash, calls itself for each level, and a deep one overflows the stack.
_MOST_TUPLES = 8
#: Levels of lists and dicts; a data file has three.
_MOST_LEVELS = 64
_NUMBERS = frozenset(
    {"b1", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"}
)  # no objects, no records
_PLAIN = (str, bytes, int, float, type(None))


class _Refused(Exception):
    """The file asks for something that no data file needs."""


class _StandIn:
    """Replaces a function that the pickle asks for; the pickle cannot modify it."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise _Refused("modifies a function")


class _Dtype:
    """An array's dtype: created from the kind of number; the byte order arrives as state."""

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
    """An array whose content arrives later as state, or is set at once."""

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
    ("numpy", "ndarray"): _type_only,  # only ever an argument to _reconstruct
    ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array(),
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("_codecs", "encode"): _encode,  # how Python 3 writes bytes that Python 2 can read
}


class _Unpickler(pickle._Unpickler):  # C's allocates 64 GB if a ten-byte file says "memo slot 2^32"
    def __init__(self, file: Any, encoding: str) -> None:
        super().__init__(file, encoding=encoding)
        #: Every tuple so far, which keeps its number its own, and how deep it is.
        self._tuples: dict[int, tuple[Any, int]] = {}

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)

    def _load_tuple(self, kind: int) -> None:
        """Makes a tuple as the pickle asks, unless it is too deep."""
        super().dispatch[kind](self)  # type: ignore[arg-type]
        made = self.stack[-1]  # type: ignore[attr-defined]
        depth = 1 + max((self._tuples.get(id(item), (None, 0))[1] for item in made), default=0)
        if depth > _MOST_TUPLES:
            raise _Refused("holds tuples nested too deeply")
        self._tuples[id(made)] = made, depth

    def _load_set(self) -> None:
        raise _Refused("holds a set")

    for _kind in (pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3):
        dispatch[_kind[0]] = lambda self, kind=_kind[0]: self._load_tuple(kind)
    for _kind in (pickle.EMPTY_SET, pickle.FROZENSET, pickle.ADDITEMS):
        dispatch[_kind[0]] = _load_set

    def find_class(self, module: str, name: str) -> Any:
        known = _ALLOWED.get((module.replace("numpy._core", "numpy.core"), name))
        if known is None:
            raise _Refused(f"asks for {f'{module}.{name}'[:80]!r}")
        return _StandIn(known)


class _WholeLines:
    """A file whose lines must be complete: half a name means damage, not a refused name."""

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
        limit: Largest plausible size in bytes.
    """
    size = path.stat().st_size
    if size > limit:
        raise UserError(f"{path} is implausibly large, {size / 2**20:,.0f} MB: download it again")
    with open(path, "rb") as file:
        return _load(file, str(path))


def load_pickled_bytes(content: bytes, name: str) -> Any:
    """Reads a pickle already in memory; `name` appears in errors."""
    return _load(io.BytesIO(content), name)


def _load(file: BinaryIO, name: str) -> Any:
    with in_a_sentence(name, REMEDY):
        try:
            # read Python 2 strings as bytes, which leaves pixels intact
            return _plain(_Unpickler(_WholeLines(file), encoding="bytes").load())
        except _Refused as refused:
            raise UserError(
                f"{name} {refused}, which no data file needs: none of it was run; "
                "delete it and download it again from the official source"
            ) from None


def _plain(root: Any) -> Any:
    """Replaces stand-ins with arrays and bytes keys with text, at any depth."""
    top = [root]
    waiting: list[tuple[int, list[Any] | dict[Any, Any]]] = [(0, top)]
    seen: set[int] = set()
    while waiting:
        level, container = waiting.pop()
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
                if level == _MOST_LEVELS:
                    raise _Refused("holds lists nested too deeply")
                waiting.append((level + 1, value))
            elif not isinstance(value, _PLAIN):
                raise _Refused(f"holds a {type(value).__name__}")
    return top[0]


def _text(key: Any) -> Any:
    return key.decode("utf-8") if isinstance(key, bytes) else key
