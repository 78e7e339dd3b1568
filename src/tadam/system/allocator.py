"""Keeps glibc from handing large blocks back to the kernel after every operation.

By default glibc maps each big tensor afresh and unmaps it when freed, so element-wise operations
spend most of their time on page faults. Other C libraries are left alone.
"""

import ctypes
import functools
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # from glibc's <malloc.h>


@functools.cache
def keep_large_blocks() -> bool:
    """Raises glibc's thresholds, once per process; returns whether it took effect."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):  # musl
        return False
    largest = 2**31 - 1
    return bool(mallopt(_M_MMAP_THRESHOLD, largest)) and bool(mallopt(_M_TRIM_THRESHOLD, largest))
