"""Options that several commands share."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
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
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. backbone.width=16."),
]
Recipe = Annotated[str, typer.Argument(help="A shipped recipe's name, or a TOML file.")]


@dataclass(frozen=True)
class TrainingOptions:
    """How a recipe is trained."""

    dataset: Annotated[
        str | None, typer.Option(help="Use this data set instead of the recipe's.")
    ] = None
    settings: Settings = None
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = (
        False
    )
    device: Device = "auto"
    data: DataDir = None


@dataclass(frozen=True)
class JobOptions:
    """Where runs that do not need each other go, and what each of them gets."""

    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            metavar="ADDRESS|local",
            help="Run the jobs on this Ray cluster (host:port or ray://host:port), or on one "
            "started here; --out must be on storage that all its machines share.",
        ),
    ] = None
    job_cpus: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="With --ray: CPUs and threads of a job, 1 unless set."
        ),
    ] = None
    job_gpus: Annotated[
        float | None,
        typer.Option(min=0, metavar="N", help="With --ray: GPUs of a job, 0 unless set."),
    ] = None
    job_memory: Annotated[
        float | None,
        typer.Option(min=0, metavar="GIB", help="With --ray: memory to keep free for a job."),
    ] = None

    def cluster(self) -> Cluster | None:
        """The cluster that is asked for; None to run the jobs here, one after another."""
        if self.ray is not None:
            return Cluster(
                self.ray, self.job_cpus or 1, self.job_gpus or 0.0, self.job_memory or 0.0
            )
        for name in ("job_cpus", "job_gpus", "job_memory"):
            if getattr(self, name) is not None:
                raise UserError(f"`{name}` is for jobs on a cluster: add `ray`, or leave it out")
        return None


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
