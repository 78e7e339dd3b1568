"""Options that several commands share."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tadam.distributed.jobs import Cluster
from tadam.errors import UserError
from tadam.system.files import DATA_VARIABLE


def _use_data(folder: Path | None) -> None:
    """Through the environment, so that every process that the command starts finds it too."""
    if folder is not None:
        os.environ[DATA_VARIABLE] = str(folder.expanduser().absolute())


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
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. backbone.width=16."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")]
Recipe = Annotated[str, typer.Argument(help="A shipped recipe's name, or a TOML file.")]
Dataset = Annotated[str | None, typer.Option(help="Use this data set instead of the recipe's.")]

Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS|local",
        help="Run the jobs on this Ray cluster (host:port or ray://host:port), or on one started "
        "here; --out must be on storage that all its machines share.",
    ),
]
JobCpus = Annotated[
    int | None, typer.Option(min=1, help="With --ray: CPUs and threads of a job, 1 unless set.")
]
JobGpus = Annotated[
    float | None, typer.Option(min=0, help="With --ray: GPUs of a job, 0 unless set.")
]
JobMemory = Annotated[
    float | None, typer.Option(min=0, help="With --ray: memory of a job in GiB, to keep free.")
]


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
            raise UserError(f"{file} is to be written twice: choose another file for one of them")
        if file.is_dir():
            raise UserError(f"{file} is a folder: name a file in it")
        if file.exists() and not (force and file.is_file()):
            raise UserError(f"{file} exists: choose another file, or add --force")
        folder = next(parent for parent in file.absolute().parents if parent.exists())
        if not folder.is_dir():
            raise UserError(f"{file} cannot be written: {folder} is not a folder")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UserError(f"{file} cannot be written: you may not write in {folder}")


def cluster(
    ray: str | None, cpus: int | None, gpus: float | None, memory: float | None
) -> Cluster | None:
    """What the four options ask for."""
    if ray is not None:
        return Cluster(ray, cpus or 1, gpus or 0.0, memory or 0.0)
    for name, value in (("cpus", cpus), ("gpus", gpus), ("memory", memory)):
        if value is not None:
            raise UserError(f"--job-{name} is for jobs on a cluster: add --ray, or leave it out")
    return None
