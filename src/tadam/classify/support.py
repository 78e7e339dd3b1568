"""The support set as users give it: a folder, a zip, a list of labels, or images with labels."""

import os
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tadam.classify.labels import numbered, plain_labels
from tadam.classify.reading import ImageSource, sources
from tadam.data.folder import class_files
from tadam.data.label_list import is_label_list, listed_files
from tadam.data.nested import merged_folders, nested_class_files
from tadam.data.photo_zip import zipped_classes, zipped_photos
from tadam.errors import UserError


def labelled(
    images: Any, labels: Any = None, nested: bool = False
) -> tuple[list[ImageSource], list[Hashable]]:
    """The single images and the label of each.

    Args:
        images: With labels, what `sources` takes. Without, a folder or a zip with a sub-folder for
            each class, or a list of paths and labels: CSV with a header, or JSON lines.
        labels: The class of each image: text or numbers.
        nested: Make each folder that holds images a class, called `Fruit/Apple/Gala`; otherwise
            the outermost folders are the classes, with all that is below them.
    """
    if labels is not None:
        found = sources(images)
        return found, plain_labels(labels, len(found))
    if not isinstance(images, (str, os.PathLike)):
        raise UserError("labels are missing: give one for each image, or a folder of classes")
    path = Path(images)
    if path.is_file() and is_label_list(path):
        if nested:
            raise UserError(f"{path} names the class of each image: leave `nested` out")
        pairs: list[tuple[ImageSource, str]] = list(listed_files(path))
    else:
        pairs = [(file, name) for name, some in _classes(path, nested).items() for file in some]
    return [file for file, _ in pairs], [name for _, name in pairs]


def _classes(path: Path, nested: bool) -> Mapping[str, Sequence[ImageSource]]:
    if path.is_file() and path.suffix.lower() == ".zip":
        return zipped_classes(path, nested)
    return nested_class_files(path) if nested else class_files(path)


def merged_classes(path: Path) -> str | None:
    """A sentence if folders below a class's own would count as that class without `nested`."""
    folders: dict[str, list[str]] = {}
    if path.is_dir():
        for name, files in class_files(path).items():
            folders[name] = [file.parent.relative_to(path).as_posix() for file in files]
    elif path.suffix.lower() == ".zip" and path.is_file():
        for parts, _ in zipped_photos(path):
            folders.setdefault(parts[0] if parts else "", []).append("/".join(parts))
    return merged_folders(folders)


def class_numbers(labels: Sequence[Hashable], classes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The place of each label in `classes`, none of which may be left without an image."""
    missing = set(classes.tolist()) - set(labels)
    if missing:
        raise UserError(
            f"no image of class {min(missing, key=str)!r} can be read: replace its images"
        )
    return numbered(labels, classes)
