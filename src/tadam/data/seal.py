"""A checksum at the end of a cached array's file, so that a flipped bit is noticed.

NumPy ignores what follows an array's data, so a sealed file is still an ordinary .npy file. CRC-32
guards against accidents, not attackers, and is as fast as the disk.
"""

import struct
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

_MAGIC = b"tadam crc32\n"
#: Bytes that share a checksum.
_BLOCK = 2**26


def seal(path: Path, array: npt.NDArray[np.uint8]) -> None:
    """Appends the checksums of `array` to the .npy file that holds it."""
    with open(path, "ab") as file:
        file.write(_seal_of(array))


def is_sealed(path: Path, array: npt.NDArray[np.uint8]) -> bool:
    """Whether the file's checksums are those of `array`; files of 0.1.0, which had none, pass."""
    with open(path, "rb") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        file.seek(array.nbytes, 1)
        expected = _seal_of(array)
        return file.read(len(expected) + 1) in (b"", expected)


def _seal_of(array: npt.NDArray[np.uint8]) -> bytes:
    with ThreadPoolExecutor() as pool:
        checksums = list(pool.map(zlib.crc32, _blocks(array)))
    return _MAGIC + struct.pack(f"<{len(checksums)}I", *checksums)


def _blocks(array: npt.NDArray[np.uint8]) -> Iterator[memoryview]:
    flat = array.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        yield flat[start : start + _BLOCK].data
