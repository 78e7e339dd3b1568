"""Commands that check the paper's claims, our numbers beside the published ones."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tadam.cli.options import (
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
from tadam.cli.tables import (
    FOLDER,
    Out,
    PaperDataset,
    Preset,
    Seeds,
    Shots,
    Tasks,
    figure4,
    omniglot,
    print_table,
    print_written,
    request,
    run,
    show,
    table2,
    table3,
)
from tadam.reports.terminal import JobReporter, out, print_json

if TYPE_CHECKING:
    from tadam.reproduce.experiments import Request
    from tadam.reproduce.figure3 import Figure3

reproduce_app = typer.Typer(
    help="Check the paper's claims: our numbers beside the published ones.", no_args_is_help=True
)
for command in (table2, table3, figure4):
    reproduce_app.command()(command)


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
    """All of them: table2, table3, figure4, figure3, omniglot, lemma1."""
    from tadam.reproduce.figure3 import reproduce_figure3
    from tadam.reproduce.lemma1_results import reproduce_lemma1

    on = cluster(ray, job_cpus, job_gpus, job_memory)
    options: dict[str, Any] = {"seeds": seeds, "settings": settings, "tasks": tasks}
    ways = "5,20" if preset == "paper" else "5"
    tables = [
        request("table2", dataset, preset, train_way=ways, **options),
        request("table3", dataset, preset, shots=shots, **options),
        request("figure4", dataset, preset, **options),
    ]
    found: dict[str, Any] = {}

    def reproduce(wanted: "Request") -> None:
        results, written = run(wanted, folder, device, on)
        found[wanted.experiment] = results.to_json()
        if not as_json:
            show((results, written), as_json=False)

    for wanted in tables:
        reproduce(wanted)
    conditioning, written = reproduce_figure3(folder, dataset)
    found["figure3"] = conditioning.to_json()
    if not as_json:
        _show_figure3(conditioning, written)
    reproduce(request("omniglot", **options))
    lemma, _ = reproduce_lemma1(folder, cluster=on)
    found["lemma1"] = [result.to_json() for result in lemma]
    if as_json:
        print_json(found)
    else:
        out.print(f"Lemma 1: {folder / 'lemma1.md'}", soft_wrap=True)


@reproduce_app.command("report")
def report(
    folder: Out = FOLDER,
    page: Annotated[
        Path | None, typer.Option(help="Markdown file to write; report.md in --out if not given.")
    ] = None,
) -> None:
    """Write all that --out has on one page."""
    from tadam.reproduce.report import write_report

    print_written([write_report(folder, page or folder / "report.md")])


@reproduce_app.command("lemma1")
def lemma1(
    folder: Out = FOLDER,
    seed: Annotated[int, typer.Option(min=0, help="Fixes the network and the task.")] = 0,
    ray: Ray = None,
    job_cpus: JobCpus = None,
    job_gpus: JobGpus = None,
    job_memory: JobMemory = None,
    as_json: Json = False,
) -> None:
    """Lemma 1: what the gradient becomes for very small and very large alpha."""
    from tadam.reproduce.lemma1_results import LEMMA1_COLUMNS, lemma1_rows, reproduce_lemma1

    on = cluster(ray, job_cpus, job_gpus, job_memory)
    results, written = reproduce_lemma1(folder, seed, cluster=on, watcher=JobReporter(live=True))
    if as_json:
        print_json([result.to_json() for result in results])
        return
    for result in results:
        title = f"relative error of the gradient / alpha, {result.distance}"
        print_table(title, LEMMA1_COLUMNS, lemma1_rows(result))
    print_written(written)
