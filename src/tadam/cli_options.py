"""Options that several groups of commands share."""

import os
from pathlib import Path
from typing import Annotated

import typer

from tadam.files import DATA_VARIABLE


def _use_data(folder: Path | None) -> None:
    """Through the environment, so that every process that the command starts finds it too."""
    if folder is not None:
        os.environ[DATA_VARIABLE] = str(folder.expanduser().absolute())


Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
#: Takes effect by its callback: a command only has to have it.
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        callback=_use_data,
        help=f"Where data sets are; else ${DATA_VARIABLE}, else your cache folder.",
    ),
]
