"""Checks whether a folder may be written to: user files are never overwritten unasked."""

import os
from collections.abc import Collection
from pathlib import Path

from tadam.config import Config
from tadam.errors import UserError
from tadam.recipes import load_written
from tadam.system.files import is_left_over


def check_folder(
    folder: Path,
    config: Config | None = None,
    resume: bool = False,
    marker: str = "",
    unfinished: Collection[str] = (),
) -> None:
    """Refuses to overwrite anything: earlier results, another recipe's results, other files.

    Args:
        folder: Where results are to go.
        config: The recipe behind them; None if earlier results cannot be resumed.
        resume: Whether earlier results of the same recipe may be resumed.
        marker: File with the recipe of earlier results.
        unfinished: Files to ignore if there are no others.
    """
    _check_writable(folder)
    files = folder.iterdir() if folder.is_dir() else ()
    if {path.name for path in files if not is_left_over(path)} <= set(unfinished):
        return
    recipe = folder / marker
    if config is None or not recipe.exists():
        raise UserError(f"{folder} holds other files: choose a new folder with `out`")
    theirs = load_written(recipe)
    differing = config.differences(theirs)
    if differing:
        raise UserError(
            f"{folder} holds results of another recipe ({'; '.join(differing[:3])}): "
            "use the same settings, or choose another `out`"
        )
    if not resume:
        raise UserError(
            f"{folder} already holds results: add `resume` to continue them, "
            "or choose another `out`"
        )


def check_results(folder: Path, stem: str) -> None:
    """Refuses to replace results `stem`.json, .md and so on in a folder shared with others."""
    _check_writable(folder)
    for path in sorted(folder.glob(f"{stem}.*")):
        raise UserError(f"{path} exists, but what it was made from does not: choose another `out`")


def _check_writable(folder: Path) -> None:
    try:
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    except OSError as error:
        raise UserError(
            f"{folder} is not a path ({error.strerror}): choose another `out`"
        ) from None
    if not existing.is_dir():
        raise UserError(f"{existing} is a file: choose a folder with `out`")
    if not os.access(existing, os.W_OK):
        raise UserError(f"{existing} cannot be written to: choose another `out`")
