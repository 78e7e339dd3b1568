"""`tiered_imagenet`: 608 ImageNet classes, split by 34 broader categories (Ren et al. 2018).

Read from the files of the authors' archive in the folder `tiered-imagenet`: PNGs in
`{train,val,test}_images_png.pkl`, classes in `{train,val,test}_labels.pkl`. The files give the
split. The first read takes as much memory as the largest file; after that, pixels are cached.
"""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tadam.config import DataConfig
from tadam.data.cache import Counts, cached_stores, fingerprint
from tadam.data.decode import DECODER_VERSION, Pixels, decode_all, decode_bytes, decode_into
from tadam.data.source import SPLITS, Source, count_problems
from tadam.data.store import ImageStore
from tadam.data.unpickle import load_pickle
from tadam.errors import UserError
from tadam.system.files import cache_dir, write_text
from tadam.system.progress import Progress

_DEFAULT_IMAGE_SIZE = 84
_FOLDER = "tiered-imagenet"
#: Classes and images of each split.
_EXPECTED = {"train": (351, 448_695), "val": (97, 124_261), "test": (160, 206_209)}
_LARGEST_IMAGES, _LARGEST_LABELS = 16 * 2**30, 256 * 2**20


def find(root: Path) -> list[Path]:
    """The images and labels of each split, if all six files are present."""
    files = [path for split in SPLITS for path in _paths(root, split)]
    return files if all(path.is_file() for path in files) else []


def load(root: Path, config: DataConfig, progress: Progress | None = None) -> dict[str, ImageStore]:
    """One store per split, classes in label order."""
    size = config.image_size or _DEFAULT_IMAGE_SIZE
    key = f"{config.name}-{fingerprint(root, find(root), DECODER_VERSION, size)}"
    stores = cached_stores(
        key,
        (size, size, 3),
        lambda: _split_counts(root),
        lambda out: decode_into(out, _jobs(root, size), progress),
    )
    families = _cached_categories(root, key)
    return {
        split: replace(store, families=families.get(split, ())) for split, store in stores.items()
    }


def verify(root: Path, progress: Progress | None = None) -> list[str]:
    """Decodes every image, bypassing the cache, and counts classes and images."""
    try:
        counts = _split_counts(root)
        total = sum(sum(classes.values()) for classes in counts.values())
        for done, _ in enumerate(decode_all(_jobs(root, _DEFAULT_IMAGE_SIZE)), start=1):
            if progress:
                progress(done, total)
    except UserError as error:
        return [str(error)]
    return count_problems(root / _FOLDER, counts, _EXPECTED)


def _jobs(root: Path, size: int) -> Iterator[tuple[int, Callable[[], Pixels]]]:
    """The row of each image and a function that decodes it."""
    start = 0
    for split in SPLITS:
        images, labels = _paths(root, split)
        order = np.argsort(_labels(labels)[0], kind="stable")
        contents = _images(images, len(order))
        for row, i in enumerate(order):
            png = contents[i].tobytes()
            yield start + row, partial(decode_bytes, png, f"image {i} of {images}", size)
        start += len(order)
        del contents  # frees gigabytes before the next split is read


def _split_counts(root: Path) -> Counts:
    return {split: _counts(*_labels(_paths(root, split)[1])) for split in SPLITS}


def _paths(root: Path, split: str) -> tuple[Path, Path]:
    return root / _FOLDER / f"{split}_images_png.pkl", root / _FOLDER / f"{split}_labels.pkl"


def _labels(path: Path) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The class of each image, (N,), and the class names."""
    content = load_pickle(path, _LARGEST_LABELS)
    try:
        labels = np.array(content["label_specific"], np.int64)
        names = [_text(name) for name in content["label_specific_str"]]
        known = labels.ndim == 1 and (np.unique(labels) == np.arange(len(names))).all()
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        known = False
    if not known:
        raise UserError(f"{path} does not hold tiered-ImageNet's labels: download it again")
    return labels, names


def _cached_categories(root: Path, key: str) -> dict[str, tuple[str, ...]]:
    """The broader category of each class by split, kept beside the cached pixels."""
    path = cache_dir() / f"{key}-categories.json"
    with contextlib.suppress(OSError, ValueError, AttributeError):  # missing or damaged
        found = json.loads(path.read_text(encoding="utf-8"))
        return {split: tuple(map(str, words)) for split, words in found.items()}
    categories = {split: _categories(_paths(root, split)[1]) for split in SPLITS}
    with contextlib.suppress(OSError):
        write_text(path, json.dumps(categories))
    return categories


def _categories(path: Path) -> tuple[str, ...]:
    """The broader category of each class, in label order; empty if the file does not say."""
    content, (labels, names) = load_pickle(path, _LARGEST_LABELS), _labels(path)
    try:
        general = np.array(content["label_general"], np.int64)
        words = [_text(word) for word in content["label_general_str"]]
        return tuple(words[general[np.argmax(labels == k)]] for k in range(len(names)))
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        return ()


def _counts(labels: npt.NDArray[np.int64], names: list[str]) -> dict[str, int]:
    """Images per class; a repeated name gets a number, as ImageNet has two classes called crane."""
    unique = [n if n not in names[:k] else f"{n} ({k})" for k, n in enumerate(names)]
    return dict(zip(unique, np.bincount(labels).tolist(), strict=True))


def _images(path: Path, count: int) -> list[npt.NDArray[np.uint8]]:
    """The images as PNG bytes."""
    images = load_pickle(path, _LARGEST_IMAGES)
    if (
        not isinstance(images, list)
        or len(images) != count
        or not all(isinstance(i, np.ndarray) and i.dtype == np.uint8 for i in images)
    ):
        raise UserError(f"{path} is not a list of {count:,} PNG images: download it again")
    return images


def _text(name: str | bytes) -> str:
    return name.decode("utf-8") if isinstance(name, bytes) else str(name)


TIERED_IMAGENET = Source(
    name="tiered_imagenet",
    summary="608 ImageNet classes, split by broader category (Ren et al.)",
    classes="351/97/160",
    images="779,165",
    size="84x84 or any",
    licence="ImageNet's terms: research, not commercial",
    layout=f"{_FOLDER}/{{train,val,test}}_images_png.pkl and _labels.pkl",
    load=load,
    verify=verify,
    find=find,
    resizable=True,
)
