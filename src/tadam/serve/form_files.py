"""The files of a form, one after another in one temporary file.

Starlette gives each a temporary file of its own and keeps those of up to 1 MB in memory: 10,000
small files would take gigabytes, or as many file descriptors.
"""

import os
import tempfile
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartParser

#: Bodies up to this many bytes stay in memory.
IN_MEMORY = 2**20


class Pile:
    """Bytes that are appended, in memory while they are few; then any thread may read any part."""

    def __init__(self) -> None:
        self.size = 0
        self._memory = bytearray()
        self._file: BinaryIO | None = None
        self._lock = threading.Lock()

    @property
    def is_on_disk(self) -> bool:
        """Whether there are so many that they went to the disk."""
        return self._file is not None

    def append(self, data: bytes) -> None:
        """Adds bytes at the end."""
        with self._lock:
            self.size += len(data)
            if self._file is None and self.size <= IN_MEMORY:
                self._memory += data
                return
            if self._file is None:
                self._file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 (closed by `close`)
                self._file.write(self._memory)
                self._memory = bytearray()
            self._file.seek(0, os.SEEK_END)  # somebody may have read since
            self._file.write(data)

    def read(self, start: int, count: int) -> bytes:
        """Some of them."""
        with self._lock:
            if self._file is None:
                return bytes(memoryview(self._memory)[start : start + count])
            self._file.seek(start)
            return self._file.read(count)

    def close(self) -> None:
        """Frees the space."""
        with self._lock:
            self._memory = bytearray()
            if self._file is not None:
                self._file.close()


class PartOfPile:
    """A file in a pile, as `UploadFile` writes it: the last one there, while it does."""

    _max_size = IN_MEMORY  # where `UploadFile` looks, to know whether writing may take long

    def __init__(self, pile: Pile) -> None:
        self._pile, self._start, self._size = pile, 0, 0

    @property
    def _rolled(self) -> bool:
        return self._pile.is_on_disk

    def write(self, data: bytes) -> None:
        """Adds to the file."""
        if not self._size:  # only now: the parts before it are written a while after they end
            self._start = self._pile.size
        self._pile.append(data)
        self._size += len(data)

    def tell(self) -> int:
        """How much is in the pile, which decides when it goes to the disk."""
        return self._pile.size

    def seek(self, _: int) -> None:
        """`opened` begins at the start by itself."""

    def close(self) -> None:
        """The pile is closed as a whole."""

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The file from its beginning."""
        yield cast(BinaryIO, _Reader(self._pile, self._start, self._size))


class _Reader:
    """Reads a file in a pile."""

    def __init__(self, pile: Pile, start: int, size: int) -> None:
        self._pile, self._start, self._size, self._position = pile, start, size, 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = offset + (self._size if whence == 2 else 0)
        return self._position

    def read(self, count: int = -1) -> bytes:
        left = self._size - self._position
        count = left if count < 0 else min(count, left)
        data = self._pile.read(self._start + self._position, count)
        self._position += len(data)
        return data


class PileParser(MultiPartParser):
    """Reads a form whose files go into a pile."""

    def __init__(
        self, pile: Pile, headers: Headers, stream: AsyncGenerator[bytes, None], **limits: int
    ) -> None:
        super().__init__(headers, stream, **limits)
        self._pile = pile

    def on_headers_finished(self) -> None:
        """Puts a part of the pile in the place of a temporary file."""
        super().on_headers_finished()
        upload: Any = self._current_part.file
        if upload is not None:
            upload.file.close()
            upload.file = PartOfPile(self._pile)


async def form_in_pile(
    pile: Pile, headers: Headers, stream: AsyncGenerator[bytes, None], **limits: int
) -> list[tuple[str, str | UploadFile]]:
    """The fields of a form, by name; each file's `file` is a `PartOfPile`."""
    form: FormData = await PileParser(pile, headers, stream, **limits).parse()
    return form.multi_items()
