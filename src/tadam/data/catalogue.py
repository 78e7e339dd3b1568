"""Data sets by name: name -> source -> train, val and test stores."""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tadam.config import DataConfig
from tadam.data.cache import CacheWarning
from tadam.data.cifar100 import CIFAR_FS, FC100
from tadam.data.cub import CUB
from tadam.data.download import fetch
from tadam.data.family_folder import FAMILIES_PREFIX, family_folder_source
from tadam.data.folder import FOLDER_PREFIX, folder_source
from tadam.data.mini_imagenet import MINI_IMAGENET
from tadam.data.omniglot import OMNIGLOT, OMNIGLOT_ROTATED
from tadam.data.shapes_source import SHAPES
from tadam.data.source import SPLITS, Source
from tadam.data.store import ImageStore
from tadam.data.tiered_imagenet import TIERED_IMAGENET
from tadam.errors import RunFailed, UserError
from tadam.system.files import DATA_VARIABLE, data_dir
from tadam.system.progress import Progress

SOURCES = (
    SHAPES,
    FC100,
    MINI_IMAGENET,
    TIERED_IMAGENET,
    CIFAR_FS,
    CUB,
    OMNIGLOT,
    OMNIGLOT_ROTATED,
    folder_source("folder:PATH"),
    family_folder_source("families:PATH"),
)
#: Takes a title and opens a progress bar.
Bar = Callable[[str], AbstractContextManager[Progress]]


@contextmanager
def _no_bar(title: str) -> Iterator[Progress]:
    yield lambda done, total: None


def find_source(name: str) -> Source:
    """The data set called `name`, whether or not its files are present."""
    if name.startswith(FOLDER_PREFIX):
        return folder_source(name)
    if name.startswith(FAMILIES_PREFIX):
        return family_folder_source(name)
    for source in SOURCES:
        if source.name == name:
            return source
    known = ", ".join(source.name for source in SOURCES)
    raise UserError(f"unknown data set {name!r}: choose one of {known}")


def describe() -> list[dict[str, str]]:
    """Describes each data set in words: contents, licence, and where it is or how to get it."""
    root = data_dir()
    return [
        {
            "name": source.name,
            "summary": source.summary,
            "classes": source.classes,
            "images": source.images,
            "size": source.size,
            "licence": source.licence,
            "where": _where(source, root),
        }
        for source in SOURCES
    ]


def _where(source: Source, root: Path) -> str:
    if source.find is None:
        return source.layout
    found = source.find(root)
    if not found:
        return f"not in {root}: {source.how_to_get()}"
    return f"found: {os.path.commonpath(found)}"


def is_resizable(name: str) -> bool:
    """Whether this data set's images come at any size."""
    return find_source(name).resizable


def load_splits(config: DataConfig, progress: Progress | None = None) -> dict[str, ImageStore]:
    """Loads the train, val and test stores of the data set that `config` names.

    Args:
        config: Name, image size and split seed.
        progress: Called with (done, total) while images are decoded.
    """
    return _present(config.name).load(data_dir(), config, progress)


def prepare(config: DataConfig, bar: Bar = _no_bar) -> dict[str, ImageStore]:
    """Downloads a data set if it is missing and has an official source, then decodes it.

    A cache that cannot be written is an error here: filling it is what was asked for.

    Args:
        config: Name, image size and split seed.
        bar: Takes a title; shows a progress bar while its context is open.
    """
    source, root = find_source(config.name), data_dir()
    if source.find and not source.find(root):
        for download in source.downloads:
            with bar(f"downloading {Path(download.path).name}, MB") as progress:
                fetch(download, root, lambda done, total: progress(done >> 20, total >> 20))
    with bar("decoding") as progress, warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always", CacheWarning)
        stores = load_splits(config, progress)
    for note in noted:
        if issubclass(note.category, CacheWarning):
            raise RunFailed(str(note.message))
        warnings.warn_explicit(note.message, note.category, note.filename, note.lineno)
    return stores


def load_split(config: DataConfig, split: str, progress: Progress | None = None) -> ImageStore:
    """Loads one split of the data set that `config` names."""
    if split not in SPLITS:
        raise UserError(f"unknown split {split!r}: choose one of {', '.join(SPLITS)}")
    return load_splits(config, progress)[split]


def verify(name: str, progress: Progress | None = None) -> list[str]:
    """Checks every image of a data set and returns one sentence per problem."""
    return _present(name).verify(data_dir(), progress)


def _present(name: str) -> Source:
    source, root = find_source(name), data_dir()
    if source.find and not source.find(root):
        raise UserError(
            f"{name} is not in {root}: {source.how_to_get()}, "
            f"or choose another folder with `{DATA_VARIABLE}`"
        )
    return source
