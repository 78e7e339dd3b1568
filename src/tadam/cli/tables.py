"""Commands that reproduce what takes training: tables, figure 4, ablations, Omniglot."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.table import Table

from tadam.cli.options import DataDir, Device, JobOptions, Json, Settings
from tadam.distributed.jobs import Cluster
from tadam.errors import UserError
from tadam.reports.terminal import JobReporter, err, out, print_json

if TYPE_CHECKING:
    from tadam.reproduce.experiments import Request
    from tadam.reproduce.training import Reproduced

T = TypeVar("T", int, float)
Out = Annotated[
    Path,
    typer.Option("--out", help="Reproduction folder; name it again to resume or to add runs."),
]
PaperDataset = Annotated[str, typer.Option("--dataset", help="fc100 or mini_imagenet.")]
Rows = Annotated[
    str | None, typer.Option(help="Comma-separated rows; all by default.", metavar="NAMES")
]
Shots = Annotated[
    str | None,
    typer.Option(help="Of 1,5,10; by default 5 with cpu, all with paper.", metavar="NUMBERS"),
]
TrainWay = Annotated[
    str, typer.Option("--train-way", help="Classes of a training task: 5, 20 or 5,20.")
]
Alphas = Annotated[str, typer.Option(help="Comma-separated alphas.", metavar="NUMBERS")]
FOLDER = Path("runs/reproduce")


@dataclass(frozen=True)
class PaperOptions:
    """Which of the paper's experiments, and how much of it."""

    dataset: PaperDataset = "fc100"
    preset: Annotated[
        str,
        typer.Option(
            help="cpu: narrower and shorter, for an hour or two; paper: the full one, for a GPU."
        ),
    ] = "cpu"


@dataclass(frozen=True)
class RunOptions:
    """How its runs are trained, measured and kept."""

    seeds: Annotated[
        str, typer.Option(help="Comma-separated; a run for each.", metavar="NUMBERS")
    ] = "0"
    folder: Out = FOLDER
    settings: Settings = None
    tasks: Annotated[int, typer.Option(help="Test tasks.")] = 500
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only estimate how long it would take here.")
    ] = False
    device: Device = "auto"
    data: DataDir = None


def _numbers(text: str, option: str, kind: Callable[[str], T]) -> tuple[T, ...]:
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"{option} must be numbers such as 1,5, got {text!r}") from None


def request(
    experiment: str,
    paper: PaperOptions,
    runs: RunOptions,
    *,
    rows: str | None = None,
    shots: str | None = None,
    train_way: str = "5",
    values: str = "",
) -> "Request":
    """What the options ask for."""
    from tadam.reproduce.experiments import ALPHAS, Request

    return Request(
        experiment,
        paper.dataset,
        paper.preset,
        tuple(part.strip() for part in rows.split(",")) if rows else (),
        _numbers(shots, "--shots", int) if shots else (),
        _numbers(train_way, "--train-way", int),
        _numbers(values, "--values", float) if values else ALPHAS,
        _numbers(runs.seeds, "--seeds", int),
        tuple(runs.settings or ()),
        runs.tasks,
    )


def run(request: "Request", runs: RunOptions, on: Cluster | None) -> "Reproduced":
    """Runs what is missing."""
    from tadam.reports.training_progress import TerminalReporter
    from tadam.reproduce.training import reproduce

    reporter, watcher = TerminalReporter(err), JobReporter(live=on is not None)
    return reproduce(
        request, runs.folder, device=runs.device, cluster=on, reporter=reporter, watcher=watcher
    )


def reproduce_table(wanted: "Request", runs: RunOptions, jobs: JobOptions, as_json: bool) -> None:
    """Runs what is missing and shows it all, or only says how long that would take."""
    on = jobs.cluster()
    if runs.estimate:
        show_estimate(wanted, runs, as_json)
    else:
        show(run(wanted, runs, on), as_json)


def show_estimate(wanted: "Request", runs: RunOptions, as_json: bool) -> None:
    """The time of every run that is missing, and of all of them."""
    from tadam.reports.training_progress import duration
    from tadam.reproduce.estimates import estimate_runs

    with err.status("trying a few steps") as status:
        found = estimate_runs(
            wanted,
            runs.folder,
            runs.device,
            on_run=lambda name: status.update(f"trying a few steps of {name}"),
        )
    total = sum(one.seconds for one in found)
    if as_json:
        print_json({"runs": [asdict(one) for one in found], "seconds": total})
        return
    rows = [(r.name, str(r.steps), duration(r.seconds) if r.seconds else "done") for r in found]
    title = f"{wanted.experiment}, {wanted.dataset}, preset {wanted.preset}: training time here"
    print_table(title, ["run", "steps", "time"], rows)
    out.print(f"about {duration(total)} in all, one run after another, tests not included")


def show(reproduced: "Reproduced", as_json: bool) -> None:
    from tadam.reproduce.table_text import notes, on_screen

    results, written = reproduced
    if as_json:
        print_json(results.to_json())
        return
    columns, lines, left_out = on_screen(results, out.width)
    print_table(results.title, columns, lines)
    if left_out:
        out.print(f"Also in the files: {', '.join(left_out)}.")
    for note in notes(results):
        out.print(note)
    print_written(written)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold")
    for i, name in enumerate(columns):
        table.add_column(name, justify="right" if i else "left")
    for row in rows:
        table.add_row(*(cell.replace(" (", "\n(") for cell in row))
    out.print(table)


def print_written(paths: Iterable[Path]) -> None:
    out.print("written: " + ", ".join(map(str, paths)), soft_wrap=True)


@dataclass(frozen=True)
class MethodOptions(PaperOptions):
    """Which data set of Table 1, and how much of it."""

    dataset: Annotated[
        str, typer.Option("--dataset", help="fc100, omniglot, cifar_fs or mini_imagenet.")
    ] = "fc100"


def table1(
    rows: Rows = None,
    shots: Shots = None,
    *,
    paper: MethodOptions,
    runs: RunOptions,
    jobs: JobOptions,
    as_json: Json = False,
) -> None:
    """Nine systems under one protocol; rows are the methods: maml, relation, tadam, ..."""
    wanted = request("table1", paper, runs, rows=rows, shots=shots)
    reproduce_table(wanted, runs, jobs, as_json)


def table2(
    rows: Rows = None,
    train_way: TrainWay = "5",
    *,
    paper: PaperOptions,
    runs: RunOptions,
    jobs: JobOptions,
    as_json: Json = False,
) -> None:
    """Conv-4 with three distances: rows euclidean, cosine, cosine-scaled."""
    wanted = request("table2", paper, runs, rows=rows, train_way=train_way)
    reproduce_table(wanted, runs, jobs, as_json)


def table3(
    rows: Rows = None,
    shots: Shots = None,
    *,
    paper: PaperOptions,
    runs: RunOptions,
    jobs: JobOptions,
    as_json: Json = False,
) -> None:
    """What each idea adds: rows plain, alpha, alpha-at, alpha-tc, tadam."""
    wanted = request("table3", paper, runs, rows=rows, shots=shots)
    reproduce_table(wanted, runs, jobs, as_json)


def figure4(
    values: Alphas = "1,2,5,10,20",
    shot: Annotated[str, typer.Option("--shot", "--shots", help="1, 5 or 10.")] = "5",
    no_ten: Annotated[
        bool, typer.Option("--no-ten", help="The panel without task conditioning.")
    ] = False,
    *,
    paper: PaperOptions,
    runs: RunOptions,
    jobs: JobOptions,
    as_json: Json = False,
) -> None:
    """Accuracy against alpha, validation and test, with half the preset's budget each."""
    name = "figure4-no-ten" if no_ten else "figure4"
    wanted = request(name, paper, runs, values=values, shots=shot)
    reproduce_table(wanted, runs, jobs, as_json)


def omniglot(
    rows: Rows = None, *, runs: RunOptions, jobs: JobOptions, as_json: Json = False
) -> None:
    """Conv-4 on Omniglot, which the paper leaves out: rows 1shot, 5shot."""
    wanted = request("omniglot", PaperOptions(), runs, rows=rows)
    reproduce_table(wanted, runs, jobs, as_json)
