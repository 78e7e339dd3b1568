"""How much memory an image takes to decode, known from its header, and a share for each thread.

A few bytes can claim an image of gigabytes. What decoding will cost is estimated before any of it
is allocated; an image that costs too much is refused, and those under way never cost more in total.
"""

import contextlib
import ctypes
import functools
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from tadam.errors import UserError

T = TypeVar("T")
#: Larger images are refused before decoding: a few kilobytes can expand to gigabytes.
MAX_PIXELS = 100_000_000
#: JPEG's own limit. Longer rows and columns are nobody's photo, and cost memory by the row.
MAX_SIDE = 65_535
MAX_BYTES = 256 * 2**20
#: Memory that all images being decoded may take together, in bytes, and hence a single one.
MAX_MEMORY = 352 * 2**20
#: Below this many bytes a file's own size is not worth counting before it is opened.
_SMALL_FILE = 16 * 2**20
#: After an image that costs more than this, freed memory is given back to the system: malloc may
#: hold on to it, separately for every thread. One that costs twice as much is decoded on its own.
_LARGE_COST = 64 * 2**20
#: Larger images are shrunk by averaging blocks of pixels, which bounds what follows.
LARGE_PIXELS = 2_000_000
#: Bytes that a pixel of the shrunk image takes, in its copies as image, bytes and array, and later
#: while it is scaled, as floats.
_RESULT_BYTES, _SCALING_BYTES = 14, 24
#: Bytes of a pixel in Pillow's memory; 4 for all other modes.
_PIXEL_BYTES = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16L": 2, "I;16B": 2, "I;16N": 2}
#: Copies of the pixels at the peak. A WebP has two canvases, a copy of one and the image; of a TIFF
#: a strip, which may be all of it, is unpacked beside the image. Of a HEIC two smaller copies are,
#: which are gone before the result is made; so the 48 million pixels of a telephone fit.
_COPIES = {"WEBP": 4.0, "TIFF": 2.5, "GIF": 2.0, "HEIF": 1.65}
#: The second byte of a JPEG's marker, after 0xFF, which may also fill the space before it.
_START_OF_SCAN, _FILL = 0xDA, 0xFF


def opening_cost(size: int) -> int:
    """Memory to set aside before a file of `size` bytes is opened."""
    return size if size < _SMALL_FILE else MAX_MEMORY


def scaling_cost(pixels: int) -> int:
    """Memory to set aside while a network's preprocessing scales this many pixels."""
    return _SCALING_BYTES * pixels


def decoding_cost(image: Image.Image, kind: str | None, size: int) -> int:
    """Memory that an opened image will take at its peak, in bytes.

    Args:
        image: Opened, not loaded; a JPEG already reduced by `draft`.
        kind: Its format.
        size: Size of its file: decoders keep much of what they read.
    """
    pixels = image.width * image.height
    peak = pixels * _PIXEL_BYTES.get(image.mode, 4) * _COPIES.get(kind or "", 1.0)
    return int(peak) + _RESULT_BYTES * min(pixels, LARGE_PIXELS) + size


def coefficient_cost(image: Image.Image) -> int:
    """Memory for the coefficients of a JPEG that comes in several scans, as a progressive one does.

    They are kept at full size, whatever scale the image is decoded at.
    """
    if not isinstance(image, JpegImageFile) or _has_one_scan(image):
        return 0
    shares = [across * down for _, across, down, _ in image.layer]
    most = max(shares, default=1) or 1
    return int(2 * image.width * image.height * sum(shares) / most)


def _has_one_scan(image: JpegImageFile) -> bool:
    """Whether the first scan has all components at full precision: no later one can add to it."""
    file = image.fp
    if "progressive" in image.info or file is None:
        return False
    place = file.tell()
    file.seek(0)
    try:
        marker, content = 0, b""
        file.read(2)
        while marker != _START_OF_SCAN:
            lead, marker, length = struct.unpack(">BBH", file.read(4))
            while marker == _FILL:  # any number of them may stand before a marker
                marker, length = length >> 8, (length & 255) << 8 | file.read(1)[0]
            if lead != _FILL:
                return False
            content = file.read(max(0, length - 2))
        return content[:1] == bytes([image.layers])
    except (struct.error, IndexError):
        return False
    finally:
        file.seek(place)


def check_pixels(image: Image.Image, name: str) -> None:
    """Refuses an image with more pixels, in all or on a side, than we decode."""
    if image.width * image.height > MAX_PIXELS:
        raise UserError(f"{name} has more than {MAX_PIXELS:,} pixels: scale it down first")
    if max(image.size) > MAX_SIDE:
        raise UserError(
            f"{name} is {image.width} x {image.height} pixels, more than {MAX_SIDE:,} on a side: "
            "scale it down first"
        )


def check_cost(cost: int, name: str) -> None:
    """Refuses an image that would take too much memory."""
    if cost > MAX_MEMORY:
        raise UserError(
            f"{name} would take {cost / 2**20:,.0f} MB of memory to decode, more than "
            f"{MAX_MEMORY // 2**20}: scale it down, or save it as a baseline JPEG"
        )


class _Room:
    """Memory that threads share; whoever does not fit waits, in the order of arrival."""

    def __init__(self, size: int) -> None:
        self._size = self._free = size
        self._door = threading.Lock()
        self._change = threading.Condition()

    @contextlib.contextmanager
    def taken(self, cost: int) -> Iterator[None]:
        cost = min(cost, self._size)
        with self._door, self._change:
            self._change.wait_for(lambda: self._free >= cost)
            self._free -= cost
        try:
            yield
        finally:
            with self._change:
                crowded = self._free < self._size // 2
                self._free += cost
                self._change.notify_all()
            if crowded:
                _give_back()


_room = _Room(MAX_MEMORY)
_one_thread = ThreadPoolExecutor(1)


def within(cost: int, work: Callable[[], T]) -> T:
    """The result of `work`, which takes `cost` bytes, once there is enough memory for it.

    A large image waits for all of it, as others leave memory behind that is only given back later.
    """
    with taken(cost if cost <= 2 * _LARGE_COST else MAX_MEMORY):
        if cost <= _LARGE_COST:
            return work()
        try:
            _give_back()
            return work() if cost <= 2 * _LARGE_COST else _one_thread.submit(work).result()
        finally:
            _give_back()


def taken(cost: int) -> contextlib.AbstractContextManager[None]:
    """Sets memory aside while the block runs, once there is enough."""
    return _room.taken(cost)


@functools.cache
def _trim() -> "ctypes._FuncPointer | None":
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL("libc.so.6").malloc_trim
    except (OSError, AttributeError):  # musl
        return None


def _give_back() -> None:
    """glibc keeps what each thread has freed; this returns it to the system."""
    if trim := _trim():
        trim(0)


def _renew() -> None:
    """After a fork: the threads that work, or would give memory back, are the parent's."""
    global _room, _one_thread
    _room, _one_thread = _Room(MAX_MEMORY), ThreadPoolExecutor(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
