"""`mini_imagenet`: 100 ImageNet classes, split by Ravi and Larochelle (2017), in three formats.

The folder `mini-imagenet` is searched for these in turn; the first with all three splits is read:

* `mini-imagenet-cache-{train,val,test}.pkl`: pickles of pixels and each class's rows;
* `few-shot-{train,val,test}.npz`: pixels and targets, as the authors of TADAM made them;
* `{train,val,test}.csv`: Ravi's lists of file names and labels, with the files in `images/`.

The file that a class is in gives its split.
"""

import csv
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tadam.config import DataConfig
from tadam.data.archive import REMEDY
from tadam.data.cache import Counts, cached_stores, fingerprint
from tadam.data.decode import scaled
from tadam.data.failures import in_a_sentence
from tadam.data.folder import load_files, unreadable
from tadam.data.source import SPLITS, Source, count_problems
from tadam.data.store import ImageStore
from tadam.data.unpickle import load_pickle
from tadam.errors import UserError
from tadam.system.progress import Progress

_IMAGE_SIZE = 84
_FOLDER = "mini-imagenet"
_IMAGES = "images"
FORMS = ("mini-imagenet-cache-{}.pkl", "few-shot-{}.npz", "{}.csv")
#: Classes and images of each split.
_EXPECTED = {"train": (64, 38_400), "val": (16, 9_600), "test": (20, 12_000)}
_LARGEST = 4 * 2**30

#: Pixels (N, 84, 84, 3), and the rows of each class by name.
_Part = tuple[npt.NDArray[np.uint8], dict[str, npt.NDArray[np.int64]]]


def find(root: Path) -> list[Path]:
    """The files of the first complete format."""
    for form in FORMS:
        files = [root / _FOLDER / form.format(split) for split in SPLITS]
        if all(path.is_file() for path in files):
            return files
    return []


def load(root: Path, config: DataConfig, progress: Progress | None = None) -> dict[str, ImageStore]:
    """One store per split, classes sorted by name."""
    files, size = find(root), config.image_size or _IMAGE_SIZE
    if files[0].suffix == ".csv":
        return load_files(config.name, root / _FOLDER, _listed(root), size, progress)
    key = f"{config.name}-{fingerprint(root, files, size)}"

    def fill(out: npt.NDArray[np.uint8]) -> None:
        start = 0
        for done, path in enumerate(files):
            if progress:
                progress(done, len(files))
            pixels, classes = _read(path)
            for rows in classes.values():
                for row in rows:
                    out[start] = pixels[row] if size == _IMAGE_SIZE else scaled(pixels[row], size)
                    start += 1

    return cached_stores(key, (size, size, 3), lambda: _counts(root), fill)


def verify(root: Path, progress: Progress | None = None) -> list[str]:
    """Reads every file, bypassing the cache, and counts classes and images."""
    problems: list[str] = []
    try:
        if find(root)[0].suffix == ".csv":
            listed = _listed(root)
            files = [path for part in listed.values() for paths in part.values() for path in paths]
            problems = unreadable(files, progress)
            counts = {s: {c: len(paths) for c, paths in part.items()} for s, part in listed.items()}
        else:
            counts = _counts(root, progress)
    except UserError as error:
        return [str(error)]
    return problems + count_problems(root / _FOLDER, counts, _EXPECTED)


def _counts(root: Path, progress: Progress | None = None) -> Counts:
    """Image counts by split and class, from the pickles or NumPy archives."""
    counts: Counts = {}
    for done, (split, path) in enumerate(zip(SPLITS, find(root), strict=True)):
        if progress:
            progress(done, len(SPLITS))
        counts[split] = {name: len(rows) for name, rows in _read(path)[1].items()}
    _require_disjoint(root / _FOLDER, counts)
    return counts


def _read(path: Path) -> _Part:
    return _read_pickle(path) if path.suffix == ".pkl" else _read_npz(path)


def _read_pickle(path: Path) -> _Part:
    content = load_pickle(path, _LARGEST)
    try:
        pixels = content["image_data"]
        classes = {
            str(name): np.array(rows, np.int64)
            for name, rows in sorted(content["class_dict"].items())
        }
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise _not_mini_imagenet(path) from None
    return _checked(path, pixels, classes)


def _read_npz(path: Path) -> _Part:
    with in_a_sentence(str(path), REMEDY):
        with zipfile.ZipFile(path) as archive:
            if sum(info.file_size for info in archive.infolist()) > _LARGEST:
                raise UserError(f"{path} expands to an implausible size: download it again")
        try:
            with np.load(path, allow_pickle=False) as content:
                # of a member that is no array, NumPy gives the bytes
                pixels, targets = (np.asarray(content[name]) for name in ("features", "targets"))
                targets = targets.astype(np.int64)
        except (KeyError, TypeError, ValueError):  # also pickled objects
            raise _not_mini_imagenet(path) from None
    split = path.stem.rpartition("-")[2]
    if targets.ndim != 1 or targets.shape != pixels.shape[:1]:
        raise _not_mini_imagenet(path)
    classes = {f"{split} {k:02}": np.flatnonzero(targets == k) for k in np.unique(targets)}
    return _checked(path, pixels, classes)


def _checked(path: Path, pixels: Any, classes: dict[str, npt.NDArray[np.int64]]) -> _Part:
    is_images = isinstance(pixels, np.ndarray) and pixels.dtype == np.uint8
    if not is_images or pixels.shape[1:] != (_IMAGE_SIZE, _IMAGE_SIZE, 3) or not classes:
        raise _not_mini_imagenet(path)
    for rows in classes.values():
        if rows.ndim != 1 or not len(rows) or rows.min() < 0 or rows.max() >= len(pixels):
            raise _not_mini_imagenet(path)
    return pixels, classes


def _not_mini_imagenet(path: Path) -> UserError:
    return UserError(f"{path} is not mini-ImageNet at 84 pixels: download it again")


def _listed(root: Path) -> dict[str, dict[str, list[Path]]]:
    """Image files by split and class, as the CSV files list them."""
    folder = root / _FOLDER
    if not (folder / _IMAGES).is_dir():
        raise UserError(
            f"{folder / _IMAGES} does not exist: put the images that the CSVs list there"
        )
    present = set(os.listdir(folder / _IMAGES))
    listed: dict[str, dict[str, list[Path]]] = {}
    for split in SPLITS:
        path = folder / FORMS[-1].format(split)
        classes: dict[str, list[Path]] = {}
        try:
            with open(path, encoding="utf-8", newline="") as file:
                rows = [(row["filename"], row["label"]) for row in csv.DictReader(file)]
        except (KeyError, csv.Error, UnicodeDecodeError):
            raise UserError(f"{path} must be a CSV file with columns filename and label") from None
        for name, label in rows:
            if not label:
                raise UserError(f"{path} has no label for {name!r}: download it again")
            if name not in present:
                raise UserError(f"{path} lists {name!r}, which is not in {folder / _IMAGES}")
            classes.setdefault(label, []).append(folder / _IMAGES / name)
        if not classes:
            raise UserError(f"{path} lists no images: download it again")
        listed[split] = dict(sorted(classes.items()))
    _require_disjoint(folder, listed)
    return listed


def _require_disjoint(folder: Path, classes: "dict[str, dict[str, Any]]") -> None:
    seen: dict[str, str] = {}
    for split, names in classes.items():
        for name in names:
            if name in seen:
                raise UserError(
                    f"class {name!r} is in {seen[name]} and in {split} of {folder}: "
                    "keep it in one split"
                )
            seen[name] = split


MINI_IMAGENET = Source(
    name="mini_imagenet",
    summary="used in the paper: 100 ImageNet classes (Ravi and Larochelle)",
    classes="64/16/20",
    images="60,000",
    size="84x84 or any",
    licence="ImageNet's terms: research, not commercial",
    layout=f"{_FOLDER}/mini-imagenet-cache-{{train,val,test}}.pkl (or few-shot-*.npz, or Ravi's "
    "*.csv with images/)",
    load=load,
    verify=verify,
    find=find,
    resizable=True,
)
