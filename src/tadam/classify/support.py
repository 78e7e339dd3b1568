"""The support set as users give it: a folder, or images with their labels."""

import os
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tadam.classify.labels import numbered, plain_labels
from tadam.classify.reading import ImageSource, sources
from tadam.data.folder import class_files
from tadam.errors import UserError


def labelled(images: Any, labels: Any = None) -> tuple[list[ImageSource], list[Hashable]]:
    """The single images and the label of each; a folder's labels are its sub-folders' names."""
    if labels is None:
        if not isinstance(images, (str, os.PathLike)):
            raise UserError("labels are missing: give one for each image, or a folder of classes")
        files = class_files(Path(images))
        pairs = [(file, name) for name, some in files.items() for file in some]
        return [file for file, _ in pairs], [name for _, name in pairs]
    found = sources(images)
    return found, plain_labels(labels, len(found))


def class_numbers(labels: Sequence[Hashable], classes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The place of each label in `classes`, none of which may be left without an image."""
    missing = set(classes.tolist()) - set(labels)
    if missing:
        raise UserError(
            f"no image of class {min(missing, key=str)!r} can be read: replace its images"
        )
    return numbered(labels, classes)
