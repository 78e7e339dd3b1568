"""Commands that check the paper's claims, our numbers beside the published ones."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.table import Table

from tadam.cli_options import (
    DataDir,
    Device,
    JobCpus,
    JobGpus,
    JobMemory,
    Json,
    Ray,
    Settings,
    cluster,
)
from tadam.errors import UserError
from tadam.jobs import Cluster
from tadam.terminal import JobReporter, err, out, print_json

if TYPE_CHECKING:
    from tadam.reproduce.experiments import Request
    from tadam.reproduce.tables import ResultTable

T = TypeVar("T", int, float)

reproduce_app = typer.Typer(
    help="Check the paper's claims: our numbers beside the published ones.", no_args_is_help=True
)
Out = Annotated[
    Path,
    typer.Option("--out", help="Reproduction folder; give it again to go on, or to add runs."),
]
PaperDataset = Annotated[str, typer.Option("--dataset", help="fc100 or mini_imagenet.")]
Preset = Annotated[
    str,
    typer.Option(help="cpu: a row in 20 minutes on two cores; paper: the full setting, for a GPU."),
]
Rows = Annotated[
    str | None, typer.Option(help="Comma-separated rows, all unless given.", metavar="NAMES")
]
Shots = Annotated[
    str | None,
    typer.Option(
        help="Of 1,5,10; unless given 5 with the cpu preset, else all.", metavar="NUMBERS"
    ),
]
Seeds = Annotated[str, typer.Option(help="Comma-separated; a run for each.", metavar="NUMBERS")]
TrainWay = Annotated[
    str, typer.Option("--train-way", help="Classes of a training task: 5, 20 or 5,20.")
]
Values = Annotated[str, typer.Option(help="Comma-separated alphas.")]
Tasks = Annotated[int, typer.Option(help="Test tasks.")]
FOLDER = Path("runs/reproduce")


def _numbers(text: str, option: str, kind: Callable[[str], T]) -> tuple[T, ...]:
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"{option} must be numbers such as 1,5, got {text!r}") from None


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


def _run(
    request: "Request", folder: Path, device: str, on: Cluster | None, as_json: bool = False
) -> None:
    """Runs what is missing and prints the table."""
    from tadam.reproduce.training import reproduce
    from tadam.training.progress import TerminalReporter

    table, written = reproduce(
        request,
        folder,
        device=device,
        cluster=on,
        reporter=TerminalReporter(err),
        watcher=JobReporter(live=on is not None),
    )
    if as_json:
        print_json(table.to_json())
        return
    _print_table(table)
    out.print("written: " + ", ".join(map(str, written)), soft_wrap=True)


def _print_table(results: "ResultTable") -> None:
    from tadam.reproduce.table_text import COLUMNS, notes, texts

    table = Table(title=results.title, title_justify="left", title_style="bold")
    for i, name in enumerate(COLUMNS[results.experiment]):
        table.add_column(name, justify="right" if i else "left")
    for cells in texts(results):
        table.add_row(*(cell.replace(" (", "\n(") for cell in cells))
    out.print(table)
    for note in notes(results):
        out.print(note)


@reproduce_app.command("table2")
def table2(
    rows: Rows = None,
    train_way: TrainWay = "5",
    seeds: Seeds = "0",
    dataset: PaperDataset = "fc100",
    preset: Preset = "cpu",
    folder: Out = FOLDER,
    settings: Settings = None,
    tasks: Tasks = 500,
    device: Device = "auto",
    data: DataDir = None,
    ray: Ray = None,
    job_cpus: JobCpus = None,
    job_gpus: JobGpus = None,
    job_memory: JobMemory = None,
    as_json: Json = False,
) -> None:
    """Conv-4 with three distances: rows euclidean, cosine, cosine-scaled."""
    from tadam.reproduce.experiments import Request

    request = Request(
        "table2",
        dataset,
        preset,
        _names(rows),
        train_ways=_numbers(train_way, "--train-way", int),
        seeds=_numbers(seeds, "--seeds", int),
        changes=tuple(settings or ()),
        tasks=tasks,
    )
    _run(request, folder, device, cluster(ray, job_cpus, job_gpus, job_memory), as_json)


@reproduce_app.command("table3")
def table3(
    rows: Rows = None,
    shots: Shots = None,
    seeds: Seeds = "0",
    dataset: PaperDataset = "fc100",
    preset: Preset = "cpu",
    folder: Out = FOLDER,
    settings: Settings = None,
    tasks: Tasks = 500,
    device: Device = "auto",
    data: DataDir = None,
    ray: Ray = None,
    job_cpus: JobCpus = None,
    job_gpus: JobGpus = None,
    job_memory: JobMemory = None,
    as_json: Json = False,
) -> None:
    """What each idea brings: rows plain, alpha, alpha-at, alpha-tc, tadam."""
    from tadam.reproduce.experiments import Request

    request = Request(
        "table3",
        dataset,
        preset,
        _names(rows),
        _numbers(shots, "--shots", int) if shots else (),
        seeds=_numbers(seeds, "--seeds", int),
        changes=tuple(settings or ()),
        tasks=tasks,
    )
    _run(request, folder, device, cluster(ray, job_cpus, job_gpus, job_memory), as_json)


@reproduce_app.command("lemma1")
def lemma1(
    folder: Annotated[Path, typer.Option("--out", help="Where table and plot go.")] = Path(
        "runs/lemma1"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Fixes the network and the task.")] = 0,
    ray: Ray = None,
    job_cpus: JobCpus = None,
    job_gpus: JobGpus = None,
    job_memory: JobMemory = None,
    as_json: Json = False,
) -> None:
    """Lemma 1: what the gradient becomes for very small and very large alpha."""
    from tadam.reproduce.lemma1 import COLUMNS, lemma1_rows, reproduce_lemma1

    on = cluster(ray, job_cpus, job_gpus, job_memory)
    results, written = reproduce_lemma1(folder, seed, cluster=on, watcher=JobReporter(live=True))
    if as_json:
        print_json([result.to_json() for result in results])
        return
    for result in results:
        table = Table(*COLUMNS, title=f"relative error of the gradient / alpha, {result.distance}")
        for row in lemma1_rows(result):
            table.add_row(*row)
        out.print(table)
    out.print("written: " + ", ".join(str(path) for path in written), soft_wrap=True)
