"""Options that several commands share."""

import os
from pathlib import Path
from typing import Annotated

import typer

from tadam.errors import UserError
from tadam.files import DATA_VARIABLE
from tadam.jobs import Cluster


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
