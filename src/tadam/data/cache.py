"""Keeps slow-to-make results, mostly arrays, in the user's cache folder."""

import contextlib
import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from tadam.data.seal import is_sealed, seal
from tadam.data.store import ImageStore, split_stores
from tadam.errors import RunFailed, UserError
from tadam.system.files import cache_dir, replacing, write_text
from tadam.system.untrusted_json import BadJson, object_of, parse_json, whole

#: Arrays larger than this many bytes are memory-mapped; smaller ones are read into memory.
LARGE = 2 * 2**30

Counts = dict[str, dict[str, int]]


class CacheWarning(UserWarning):
    """Decoded images could not be kept."""


def cache_path(name: str) -> Path:
    """Path of the cached array called `name`."""
    return cache_dir() / f"{name}.npy"


def fingerprint(root: Path, files: Iterable[Path], *more: object) -> str:
    """A key that changes whenever a file is added, removed, replaced or moved.

    Args:
        root: Folder that contains all the files.
        files: The files to read, in order.
        more: Anything else the pixels depend on, such as the image size.
    """
    digest = hashlib.sha256(repr(more).encode())
    for path in files:
        stat = path.stat()
        digest.update(os.fsencode(path.relative_to(root)))  # a name need not be valid UTF-8
        digest.update(f"\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode())
    digest.update(os.fsencode(root.resolve()))
    return digest.hexdigest()[:32]


def cached_stores(
    name: str,
    image_shape: tuple[int, int, int],
    count: Callable[[], Counts],
    fill: Callable[[npt.NDArray[np.uint8]], None],
) -> dict[str, ImageStore]:
    """One store per split, for data sets where even counting the images is slow.

    Args:
        name: Name of the array and of the file that holds its counts.
        image_shape: (H, W, C).
        count: Counts the images, by split and class name.
        fill: Writes the images, (N, H, W, C), in the order of the counts.
    """
    counts = _cached_counts(name, count)
    total = sum(sum(classes.values()) for classes in counts.values())
    return split_stores(cached_array(name, (total, *image_shape), fill), counts)


def _cached_counts(name: str, count: Callable[[], Counts]) -> Counts:
    path = cache_dir() / f"{name}.json"
    with contextlib.suppress(OSError, BadJson):  # missing or damaged
        found: Counts = object_of(object_of(whole()))(parse_json(path.read_bytes()))
        return found
    counts = count()
    with _noted(path):
        write_text(path, json.dumps(counts))
    return counts


def cached_array(
    name: str, shape: tuple[int, ...], fill: Callable[[npt.NDArray[np.uint8]], None]
) -> npt.NDArray[np.uint8]:
    """The uint8 array called `name`, made by `fill` if it is not cached or its cache is damaged.

    If the cache cannot be written (read-only home, full disk), a small array is made each time and
    a `CacheWarning` says so.
    """
    path = cache_path(name)
    size = int(np.prod(shape))
    mode: Literal["r"] | None = "r" if size > LARGE else None
    # If it is missing or damaged, make it again. A damaged header raises nearly anything, from
    # TokenError to BadZipFile.
    with contextlib.suppress(Exception):
        found = np.load(path, mmap_mode=mode, allow_pickle=False)
        if found.shape == shape and found.dtype == np.uint8 and is_sealed(path, found):
            return found  # type: ignore[no-any-return]
    if mode is None:
        array = np.empty(shape, np.uint8)
        fill(array)
        with _noted(path), replacing(path) as temporary:
            with open(temporary, "wb") as file:  # np.save would not say that the disk is full
                header = np.lib.format.header_data_from_array_1_0(array)
                np.lib.format.write_array_header_1_0(file, header)
                file.write(array.data)
            seal(temporary, array)
        return array
    path.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(path.parent).free
    if free < size + 2**30:  # a full disk kills a memory map with a signal, not an exception
        raise UserError(
            f"the decoded images need {size / 2**30:.1f} GB in {path.parent}, which has "
            f"{free / 2**30:.1f} GB free: make room, or choose a smaller image size"
        )
    with replacing(path) as temporary:
        mapped = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
        fill(mapped)
        mapped.flush()
        seal(temporary, mapped)
        del mapped  # Windows cannot rename a mapped file
    return np.load(path, mmap_mode=mode, allow_pickle=False)  # type: ignore[no-any-return]


@contextlib.contextmanager
def _noted(path: Path) -> Iterator[None]:
    """A cache that cannot be written is a pity, not an error."""
    try:
        yield
    except (UserError, RunFailed) as error:
        warnings.warn(
            f"{error}; until then, images are decoded again for each command",
            CacheWarning,
            stacklevel=4,
        )
