"""What a command reads and writes, checked before any work is done."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tadam.cli.options import Force
from tadam.errors import UserError


def check_inputs(paths: Sequence[Path]) -> None:
    """Refuses files and folders that are not there."""
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} does not exist: check the path")


def check_outputs(files: Sequence[Path], force: bool, classifier: Path | None = None) -> None:
    """Refuses files that cannot or should not be written, before any work is done.

    Args:
        files: What a command is asked to write.
        force: Whether existing files may be replaced.
        classifier: The file that the command reads, which is not to be lost.
    """
    real = [os.path.realpath(file) for file in files]
    for file in files:
        if classifier and os.path.realpath(file) == os.path.realpath(classifier):
            raise UserError(f"{file} is the classifier itself: choose another file")
        if real.count(os.path.realpath(file)) > 1:
            raise UserError(f"{file} is named for two outputs: choose another file for one of them")
        if file.is_dir():
            raise UserError(f"{file} is a folder: name a file in it")
        if file.exists() and not (force and file.is_file()):
            raise UserError(f"{file} exists: choose another file, or add --force")
        folder = next(parent for parent in file.absolute().parents if parent.exists())
        if not folder.is_dir():
            raise UserError(f"{file} cannot be written: {folder} is not a folder")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UserError(f"{file} cannot be written: you may not write in {folder}")


@dataclass(frozen=True)
class PhotoFiles:
    """What a command on photos writes besides what it prints."""

    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write a row for each image.")
    ] = None
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a page to look at.")
    ] = None
    force: Force = False

    @property
    def named(self) -> list[Path]:
        """The files that are asked for."""
        return [file for file in (self.csv_file, self.report) if file]

    def check(self, classifier: Path) -> None:
        """Refuses what cannot or should not be written, before any work is done."""
        check_outputs(self.named, self.force, classifier)
