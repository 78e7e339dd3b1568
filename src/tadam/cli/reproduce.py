"""Commands that check the paper's claims, our numbers beside the published ones."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tadam.cli.ablations import ablation_commands
from tadam.cli.claims import gradients, task_clusters
from tadam.cli.options import JobOptions, Json
from tadam.cli.photos import photos
from tadam.cli.tables import (
    FOLDER,
    Out,
    PaperDataset,
    PaperOptions,
    RunOptions,
    Shots,
    figure4,
    omniglot,
    print_table,
    print_written,
    request,
    run,
    show,
    show_estimate,
    table1,
    table2,
    table3,
)
from tadam.cli.typer_app import App
from tadam.reports.terminal import JobReporter, out, print_json

if TYPE_CHECKING:
    from tadam.reproduce.experiments import Request
    from tadam.reproduce.figure3 import Figure3

reproduce_app = App(help="Check the paper's claims: our numbers beside the published ones.")
for command in (table1, table2, table3, figure4):
    reproduce_app.command()(command)
for name, ablation in ablation_commands():
    reproduce_app.command(name)(ablation)
reproduce_app.command("photos")(photos)
reproduce_app.command("gradients")(gradients)
reproduce_app.command("task-clusters")(task_clusters)


@reproduce_app.command("figure3")
def figure3(
    models: Annotated[
        list[str] | None,
        typer.Option(metavar="RUN", help="A run folder or weights file; may be given repeatedly."),
    ] = None,
    dataset: PaperDataset = "fc100",
    folder: Out = FOLDER,
    as_json: Json = False,
) -> None:
    """|gamma0| and |beta0| by layer, of the trained models that --out has, or of others."""
    from tadam.reproduce.figure3 import reproduce_figure3

    result, written = reproduce_figure3(folder, dataset, models or ())
    if as_json:
        print_json(result.to_json())
        return
    _show_figure3(result, written)


def _show_figure3(result: "Figure3", written: Iterable[Path]) -> None:
    from tadam.reproduce.figure3 import FIGURE3_COLUMNS, count_of, figure3_rows
    from tadam.reproduce.published import seen

    title = f"Figure 3: conditioning by layer, {count_of(result)}, {result.dataset}"
    print_table(title, FIGURE3_COLUMNS, figure3_rows(result))
    out.print(seen("figure3"))
    print_written(written)


reproduce_app.command()(omniglot)


@reproduce_app.command("all")
def everything(
    shots: Shots = None,
    *,
    paper: PaperOptions,
    runs: RunOptions,
    jobs: JobOptions,
    as_json: Json = False,
) -> None:
    """The paper's tables and figures: table2, table3, figure4, figure3, omniglot, lemma1."""
    from tadam.reproduce.figure3 import reproduce_figure3
    from tadam.reproduce.lemma1_results import reproduce_lemma1

    on = jobs.cluster()
    ways = "5,20" if paper.preset == "paper" else "5"
    tables = [
        request("table2", paper, runs, train_way=ways),
        request("table3", paper, runs, shots=shots),
        request("figure4", paper, runs),
    ]
    if runs.estimate:
        for wanted in (*tables, request("omniglot", PaperOptions(), runs)):
            show_estimate(wanted, runs, as_json)
        return
    found: dict[str, Any] = {}

    def reproduce(wanted: "Request") -> None:
        results, written = run(wanted, runs, on)
        found[wanted.experiment] = results.to_json()
        if not as_json:
            show((results, written), as_json=False)

    for wanted in tables:
        reproduce(wanted)
    conditioning, written = reproduce_figure3(runs.folder, paper.dataset)
    found["figure3"] = conditioning.to_json()
    if not as_json:
        _show_figure3(conditioning, written)
    reproduce(request("omniglot", PaperOptions(), runs))
    lemma, _ = reproduce_lemma1(runs.folder, cluster=on)
    found["lemma1"] = [result.to_json() for result in lemma]
    if as_json:
        print_json(found)
    else:
        out.print(f"Lemma 1: {runs.folder / 'lemma1.md'}", soft_wrap=True)


@reproduce_app.command("report")
def report(
    folder: Out = FOLDER,
    page: Annotated[
        Path | None, typer.Option(help="Markdown file to write; report.md in --out by default.")
    ] = None,
) -> None:
    """Write everything in --out on one page."""
    from tadam.reproduce.report import write_report

    print_written([write_report(folder, page or folder / "report.md")])


@reproduce_app.command("lemma1")
def lemma1(
    folder: Out = FOLDER,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the network and the task.")] = 0,
    *,
    jobs: JobOptions,
    as_json: Json = False,
) -> None:
    """Lemma 1: what the gradient becomes for very small and very large alpha."""
    from tadam.reproduce.lemma1_results import LEMMA1_COLUMNS, lemma1_rows, reproduce_lemma1

    on = jobs.cluster()
    results, written = reproduce_lemma1(folder, seed, cluster=on, watcher=JobReporter(live=True))
    if as_json:
        print_json([result.to_json() for result in results])
        return
    for result in results:
        title = f"relative error of the gradient / alpha, {result.distance}"
        print_table(title, LEMMA1_COLUMNS, lemma1_rows(result))
    print_written(written)
