"""Labelled photos as `fit`, `add` and `check` take them: a folder, a zip or a list."""

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tadam.cli.flags import with_flags
from tadam.reports.terminal import err, out
from tadam.system.untrusted_text import printable

if TYPE_CHECKING:
    from tadam.classify.reading import ImageSource

#: Up to this many classes are listed with their photos; of more, so many at each end.
_LISTED, _ENDS = 24, 6
_LONGEST_NAME = 32

LabelledPhotos = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER",
        help="Holds a sub-folder of images for each class; or a zip of that, or a list: "
        "CSV or JSON lines with path and label.",
    ),
]
Nested = Annotated[
    bool,
    typer.Option("--nested", help="Make each folder that holds images a class, e.g. Fruit/Apple."),
]


def read_labelled(
    path: Path, nested: bool, problems: list[str]
) -> "tuple[list[ImageSource], list[Hashable]]":
    """Images and labels; says what may not be meant, and adds what is left out to `problems`."""
    from tadam.classify.support import labelled, merged_classes
    from tadam.data.folder import SPLITS_FILE, left_out

    files, labels = labelled(path, nested=nested)
    if path.is_dir():
        used = [file for file in files if isinstance(file, Path)]
        problems += left_out(path, [*used, path / SPLITS_FILE])
    if not nested and (note := merged_classes(path)):
        err.print(f"note: {printable(with_flags(note))}", soft_wrap=True)
    return files, labels


def chosen_model(model: str | None) -> str:
    """The model's name, once it is found; says what is missing if the best one is not there."""
    from tadam.models.find import default_model, find_model, what_is_missing

    name = model or default_model()
    find_model(name)
    if model is None and (advice := what_is_missing()):
        err.print(f"note: {advice}", soft_wrap=True)
    return name


def print_classes(classes: Sequence[Any], counts: Sequence[int]) -> None:
    """The classes with the number of photos of each, on as few lines as they need."""
    named = [
        f"{_short(printable(name))} {count}" for name, count in zip(classes, counts, strict=True)
    ]
    if len(named) > _LISTED:
        left = len(named) - 2 * _ENDS
        named = [*named[:_ENDS], f"... {left} more classes ...", *named[-_ENDS:]]
    out.print(f"photos of each class: {', '.join(named)}", soft_wrap=True)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
