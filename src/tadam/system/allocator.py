"""Whether glibc hands large blocks back to the kernel: never in training, always between images.

By default it maps each big tensor afresh and unmaps it when freed, so element-wise operations
spend most of their time on page faults; and it holds on to what threads free, which for images is
gigabytes. Other C libraries are left alone.
"""

import ctypes
import functools
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # from glibc's <malloc.h>


#: Blocks of an image and its copies, from about a million pixels on.
_IMAGE_BLOCK = 4 * 2**20
#: What a thread may keep of what it has freed. With glibc's 128 KB, which a fixed threshold for
#: blocks brings along, every 4 KB of every photo would cost a page fault.
_KEPT = 4 * 2**20


@functools.cache
def keep_large_blocks() -> bool:
    """Raises glibc's thresholds, once per process; returns whether it took effect."""
    largest = 2**31 - 1
    return _set(_M_MMAP_THRESHOLD, largest) and _set(_M_TRIM_THRESHOLD, largest)


@functools.cache
def return_large_blocks() -> bool:
    """Makes glibc return blocks as large as an image once they are freed; returns as above.

    Left alone, it raises its threshold with every image, and then every reading thread keeps what
    it has freed. Does nothing where `keep_large_blocks` was called.
    """
    if keep_large_blocks.cache_info().currsize:
        return False
    return _set(_M_MMAP_THRESHOLD, _IMAGE_BLOCK) and _set(_M_TRIM_THRESHOLD, _KEPT)


def _set(parameter: int, value: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):  # musl
        return False
    return bool(mallopt(parameter, value))
