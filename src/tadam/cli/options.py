"""Options that several commands share."""

import os
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


#: Takes effect through its callback; a command only has to declare it.
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        callback=_use_data,
        help=f"Where data sets are; else ${DATA_VARIABLE}, else your cache folder.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="A shipped model's name, a run folder, a weights file, an ONNX encoder or hf:NAME; "
        "the best one installed by default."
    ),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
PhotoSize = Annotated[
    int | None,
    typer.Option(
        metavar="PIXELS",
        min=16,
        max=1024,
        help="Scale photos to this side; larger sees finer detail and is slower.",
    ),
]
NoCache = Annotated[
    bool,
    typer.Option("--no-cache", help="Look at every photo anew; see 'tadam cache info'."),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Stop at a file that cannot be read instead of skipping it."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting, e.g. backbone.width=16; see 'tadam settings'.",
    ),
]
Recipe = Annotated[str, typer.Argument(help="A shipped recipe's name, or a TOML file.")]


@dataclass(frozen=True)
class TrainingOptions:
    """How a recipe is trained."""

    dataset: Annotated[
        str | None, typer.Option(help="Use this data set instead of the recipe's.")
    ] = None
    settings: Settings = None
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the last checkpoint.")] = (
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
            min=1, metavar="N", help="With --ray: CPUs and threads of a job, 1 by default."
        ),
    ] = None
    job_gpus: Annotated[
        float | None,
        typer.Option(min=0, metavar="N", help="With --ray: GPUs of a job, 0 by default."),
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


@dataclass(frozen=True)
class RejectOptions:
    """Whether "none of these" is an answer."""

    reject: Annotated[
        bool, typer.Option("--reject", help="Answer 'unknown' for an image unlike every class.")
    ] = False
    reject_threshold: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            min=0.0,
            help="Reject what is stranger than this, 1 by default; implies --reject.",
        ),
    ] = None

    def asked(self) -> bool:
        """Whether an image may be answered with 'unknown'."""
        return self.reject or self.reject_threshold is not None
