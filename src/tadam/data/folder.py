"""`folder:PATH`: a sub-folder per class, classes dealt to train, val and test.

The split comes from `PATH/splits.toml` (`train = ["cat", ...]`, `val = [...]`, `test = [...]`) if
there is one, else from a seed: 64/16/20 percent, but at least 5 classes (or a third) each.
"""

import hashlib
import os
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tadam.data.cache import cached_array
from tadam.data.decode import EXTENSIONS, decode
from tadam.data.episodes import bits, uniforms
from tadam.data.store import ImageStore
from tadam.errors import UserError

DEFAULT_IMAGE_SIZE = 84
SPLITS_FILE = "splits.toml"
#: Part of the cache's key; bumped when decoding changes pixels.
_DECODER_VERSION = 1


def class_files(folder: Path) -> dict[str, list[Path]]:
    """The image files of every class, classes and files sorted by name."""
    if not folder.is_dir():
        raise UserError(f"the image folder {folder} does not exist: check the path after 'folder:'")
    classes = {
        sub.name: sorted(f for f in sub.rglob("*") if _is_image(f, sub))
        for sub in sorted(folder.iterdir())
        if sub.is_dir() and not sub.name.startswith(".")
    }
    if not classes:
        raise UserError(
            f"{folder} has no sub-folders: put each class's images in a folder of its own"
        )
    for name, files in classes.items():
        if not files:
            kinds = ", ".join(sorted(EXTENSIONS))
            raise UserError(
                f"class folder {folder / name} holds no image ({kinds}): fill or remove it"
            )
    return classes


def _is_image(path: Path, folder: Path) -> bool:
    """Whether the name says so; hidden ones are thumbnails and macOS's `._` doubles."""
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.suffix.lower() in EXTENSIONS and not hidden and path.is_file()


def split_names(folder: Path, names: Sequence[str], seed: int) -> dict[str, list[str]]:
    """Class names of train, val and test."""
    path = folder / SPLITS_FILE
    if path.exists():
        return _read_splits(path, names)
    if len(names) < 3:
        raise UserError(
            f"{folder} has {len(names)} classes, a train/val/test split needs at least 3: "
            "add classes"
        )
    order = np.argsort(uniforms(bits(seed, 0, 0), len(names)), kind="stable")
    shuffled = [names[i] for i in order]
    # Of few classes, val and test get more than their share, so that 5-way tasks are possible.
    val, test = (max(round(share * len(names)), min(5, len(names) // 3)) for share in (0.16, 0.20))
    train = len(names) - val - test
    return {
        "train": sorted(shuffled[:train]),
        "val": sorted(shuffled[train : train + val]),
        "test": sorted(shuffled[train + val :]),
    }


def _read_splits(path: Path, names: Sequence[str]) -> dict[str, list[str]]:
    try:
        splits = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from None
    if set(splits) != {"train", "val", "test"} or not all(
        isinstance(v, list) and v and all(isinstance(n, str) for n in v) for v in splits.values()
    ):
        raise UserError(f"{path} must hold three lists of class names: train, val and test")
    listed = [name for part in splits.values() for name in part]
    for name in listed:
        if name not in names:
            raise UserError(f"{path} lists class {name!r}, which has no folder beside it")
        if listed.count(name) > 1:
            raise UserError(f"{path} lists class {name!r} more than once: a class is in one split")
    return splits


def load_folder(
    folder: Path, image_size: int, seed: int, progress: Callable[[int, int], None] | None = None
) -> dict[str, ImageStore]:
    """Reads a folder into one store per split, decoding in parallel and caching the pixels.

    Args:
        folder: Holds a sub-folder per class.
        image_size: Side of the square images, 0 for the default.
        seed: Deals the classes where no split file does.
        progress: Called with (images decoded, images in all).
    """
    files = class_files(folder)
    splits = split_names(folder, list(files), seed)
    size = image_size or DEFAULT_IMAGE_SIZE
    ordered = [path for part in splits.values() for name in part for path in files[name]]

    def decode_all(out: npt.NDArray[np.uint8]) -> None:
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            for i, pixels in enumerate(pool.map(lambda path: decode(path, size), ordered)):
                out[i] = pixels
                if progress:
                    progress(i + 1, len(ordered))

    images = cached_array(
        f"folder-{_fingerprint(folder, ordered, size)}", (len(ordered), size, size, 3), decode_all
    )
    stores, start = {}, 0
    for part, names in splits.items():
        counts = [len(files[name]) for name in names]
        stop = start + sum(counts)
        stores[part] = ImageStore.from_counts(images[start:stop], counts, names)
        start = stop
    return stores


def _fingerprint(folder: Path, files: Sequence[Path], size: int) -> str:
    """Changes whenever a file is added, removed, replaced or dealt to another place."""
    digest = hashlib.sha256(f"{_DECODER_VERSION} {size}".encode())
    for path in files:
        stat = path.stat()
        digest.update(os.fsencode(path.relative_to(folder)))  # a name need not be valid UTF-8
        digest.update(f"\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode())
    digest.update(os.fsencode(folder.resolve()))
    return digest.hexdigest()[:32]
