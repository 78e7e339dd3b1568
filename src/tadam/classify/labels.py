"""Labels as users give them: text or numbers, one kind at a time, in sorted order."""

import math
from collections.abc import Hashable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from tadam.errors import UserError


def plain_labels(labels: Any, count: int) -> list[Hashable]:
    """The labels of `count` images as plain Python values of one kind."""
    shape: Sequence[int] = getattr(labels, "shape", ())
    labels = _plain(labels)
    if isinstance(labels, str | bytes | Mapping | Set) or not hasattr(labels, "__iter__"):
        raise UserError(f"labels must be a list with one label for each image, got {labels!r}")
    if isinstance(labels, list) and len(shape) == 2 and shape[1] == 1:
        labels = [row[0] for row in labels]
    listed = [_plain(label) for label in labels]
    if len(listed) != count:
        raise UserError(f"there are {count} images and {len(listed)} labels: give one for each")
    kinds: dict[str, Hashable] = {}
    for label in listed:
        kinds.setdefault(_kind(label), label)
    if len(kinds) > 1:
        (one, a), (other, b) = list(kinds.items())[:2]
        raise UserError(f"labels mix {one} ({a!r}) and {other} ({b!r}): make them all one kind")
    return listed


def _plain(value: Any) -> Any:
    """A NumPy or PyTorch value, of whatever shape, as Python's own."""
    return value.tolist() if hasattr(value, "tolist") else value


def _kind(label: Any) -> str:
    if label is None or (isinstance(label, float) and math.isnan(label)):
        raise UserError(f"{label!r} is not a label: leave out images without one")
    if isinstance(label, bool):
        return "truth values"
    if isinstance(label, (int, float)):
        return "numbers"
    if isinstance(label, str):
        return "text"
    try:
        hash(label)
    except TypeError:
        raise UserError(
            f"{label!r} cannot be a label: use text or numbers, one for each image"
        ) from None
    return f"values of type {type(label).__name__}"


def class_array(labels: Sequence[Hashable]) -> npt.NDArray[Any]:
    """The different labels, sorted, (K,)."""
    try:
        classes = sorted(set(labels))  # type: ignore[type-var]
    except TypeError:
        raise UserError(
            f"labels such as {labels[0]!r} have no order: use text or numbers"
        ) from None
    array = np.empty(len(classes), dtype=object)
    array[:] = classes  # a tuple would otherwise become a row
    if not isinstance(classes[0], (str, int, float)):
        return array
    plain = np.array(classes)
    # NumPy has no integers beyond 64 bits and drops a trailing NUL from text
    exact = [(type(c), c) for c in plain.tolist()] == [(type(c), c) for c in classes]
    return plain if exact else array


def numbered(labels: Sequence[Hashable], classes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The place of each label in `classes`."""
    places = {label: i for i, label in enumerate(classes.tolist())}
    return np.array([places[label] for label in labels], dtype=np.int64)


def unknown_label(classes: npt.NDArray[Any]) -> Hashable:
    """The answer "none of these": `unknown` among text, -1 among numbers, else None."""
    kind = type(classes.tolist()[0])
    label: Hashable = "unknown" if kind is str else -1 if kind in (int, float) else None
    if label in classes.tolist():
        raise UserError(
            f"a class is called {label!r}, which is the answer for 'none of these': rename the "
            "class, or leave reject out"
        )
    return label
