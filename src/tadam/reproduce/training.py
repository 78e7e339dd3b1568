"""Reproduces what needs training: tables, curves, ablations, Omniglot."""

import json
from pathlib import Path

from tadam.distributed.jobs import Cluster, Watcher
from tadam.reports.figure import available
from tadam.reproduce.diverged import diverged_runs
from tadam.reproduce.drawing import draw_curves, draw_table
from tadam.reproduce.experiments import CURVES, Request
from tadam.reproduce.runs import RunReporter, make_runs, stored_runs
from tadam.reproduce.table_files import write_rows
from tadam.reproduce.table_text import COLUMNS, markdown, texts
from tadam.reproduce.tables import ResultTable, build_table, load_table
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
    """Trains and tests the missing runs and writes the table of all finished ones.

    Called again with the same request, it resumes where it stopped; rows, shots and seeds may be
    added.

    Args:
        request: What to reproduce.
        out: Reproduction folder.
        device: auto, cpu, cuda or mps.
        cluster: Train on Ray instead of here, one run at a time; `out` must be on storage that
            all its machines share.
        reporter: Shows each run's progress, if the runs are here.
        watcher: Shows which runs are in progress.

    Returns:
        The table, and the files that hold it: JSON, Markdown, CSV, LaTeX and, if matplotlib is
        installed, PNG.
    """
    folder = Path(out)

    def update(draw: bool = False) -> Reproduced:
        runs = folder / request.stem
        table = build_table(request, stored_runs(runs), diverged_runs(runs))
        return table, write_table(table, folder, request.stem, draw)

    make_runs(
        request,
        folder,
        device=device,
        cluster=cluster,
        reporter=reporter,
        watcher=watcher,
        on_run=update,  # so that a crash keeps what is done
    )
    return update(draw=True)


def write_table(table: ResultTable, folder: Path, stem: str, draw: bool = True) -> list[Path]:
    """Writes a table as `stem`.json, .md, .csv, .tex and, if it can be drawn and `draw`, .png."""
    paths = [folder / f"{stem}.json", folder / f"{stem}.md"]
    write_text(paths[0], json.dumps(table.to_json(), indent=2) + "\n")
    write_text(paths[1], markdown(table))
    paths += write_rows(folder, stem, table.title, list(COLUMNS[table.experiment]), texts(table))
    if draw and available():
        paths.append(_draw(table, folder, stem))
    return paths


def _draw(table: ResultTable, folder: Path, stem: str) -> Path:
    """Draws a table; figure 4 with and without TEN as panels of one picture, if both are there."""
    alone = folder / f"{stem}.png"
    if table.experiment not in CURVES:
        draw_table(table, alone)
        return alone
    end = stem.removeprefix(table.experiment)
    names = {experiment: f"{experiment}{end}" for experiment in CURVES}
    tables = {
        experiment: table if experiment == table.experiment else load_table(path)
        for experiment, name in names.items()
        if (path := folder / f"{name}.json").exists()
    }
    panels = [tables[experiment] for experiment in CURVES if experiment in tables]
    panels = [one for one in panels if one.runs] or [table]
    first, *others = [folder / f"{names[one.experiment]}.png" for one in panels]
    draw_curves(panels, first)
    for picture in others:
        picture.unlink(missing_ok=True)
    return first
