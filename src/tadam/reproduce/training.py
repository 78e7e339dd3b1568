"""Reproduces what takes training: tables 2 and 3, figure 4, Omniglot."""

import json
from pathlib import Path

from tadam.distributed.jobs import Cluster, Watcher
from tadam.reports.figure import available
from tadam.reproduce.drawing import draw_table
from tadam.reproduce.experiments import Request
from tadam.reproduce.runs import RunReporter, make_runs, stored_runs
from tadam.reproduce.table_text import markdown
from tadam.reproduce.tables import ResultTable, build_table
from tadam.system.files import write_text

#: A table, and the files that hold it.
Reproduced = tuple[ResultTable, list[Path]]


def reproduce(
    request: Request,
    out: str | Path,
    *,
    device: str = "auto",
    cluster: Cluster | None = None,
    reporter: RunReporter | None = None,
    watcher: Watcher | None = None,
) -> Reproduced:
    """Trains and tests what is missing and writes the table of all that is there.

    Called again with the same request it goes on where it was stopped; rows, shots and seeds may
    be added.

    Args:
        request: What to reproduce.
        out: Reproduction folder.
        device: auto, cpu, cuda or mps.
        cluster: Train on Ray instead of one run after the other here; `out` must be on storage
            that all its machines share.
        reporter: Is told of each run's progress, if the runs are here.
        watcher: Is told which runs are under way.

    Returns:
        The table, and the files that hold it: JSON, Markdown and, if there is matplotlib, PNG.
    """
    folder = Path(out)

    def update(draw: bool = False) -> Reproduced:
        table = build_table(request, stored_runs(folder / request.stem))
        return table, write_table(table, folder, request.stem, draw)

    make_runs(
        request,
        folder,
        device=device,
        cluster=cluster,
        reporter=reporter,
        watcher=watcher,
        on_run=update,  # a crash leaves what was found
    )
    return update(draw=True)


def write_table(table: ResultTable, folder: Path, stem: str, draw: bool = True) -> list[Path]:
    """Writes a table as `stem`.json, .md and, to be drawn and if there is matplotlib, .png."""
    paths = [folder / f"{stem}.json", folder / f"{stem}.md"]
    write_text(paths[0], json.dumps(table.to_json(), indent=2) + "\n")
    write_text(paths[1], markdown(table))
    if draw and available():
        paths.append(folder / f"{stem}.png")
        draw_table(table, paths[2])
    return paths
