"""The command that cross-validates alpha."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tadam.cli.options import JobOptions, Json, Recipe, TrainingOptions
from tadam.cli.typer_app import App
from tadam.reports.terminal import JobReporter, err, out, percent, print_json

sweep_app = App(help="Cross-validate a setting.")


@sweep_app.command("alpha")
def sweep_alpha(
    recipe: Recipe,
    values: Annotated[
        str, typer.Option(help="Comma-separated alphas.", metavar="NUMBERS")
    ] = "0.5,1,2,5,10",
    folder: Annotated[
        Path | None, typer.Option("--out", help="Sweep folder; runs/sweep-RECIPE by default.")
    ] = None,
    *,
    training: TrainingOptions,
    jobs: JobOptions,
    as_json: Json = False,
) -> None:
    """Train once per alpha, choose on validation and draw the curve."""
    from tadam.reports.sweep_plot import draw_sweep
    from tadam.reports.training_progress import TerminalReporter
    from tadam.training.sweep import parse_values
    from tadam.training.sweep import sweep_alpha as run

    folder = folder or Path("runs") / f"sweep-{Path(recipe).stem}"
    result = run(
        recipe,
        parse_values(values),
        folder,
        settings=training.settings or [],
        dataset=training.dataset,
        device=training.device,
        resume=training.resume,
        cluster=jobs.cluster(),
        reporter=TerminalReporter(err),
        watcher=JobReporter(live=jobs.ray is not None),
        on_point=lambda p: err.print(f"alpha {p.alpha:g}: {percent(p.accuracy, p.ci95)}"),
    )
    result = draw_sweep(result)
    if as_json:
        print_json(result.to_json())
        return
    table = Table("alpha", "validation accuracy", "at step", "")
    for p in result.points:
        row = (f"{p.alpha:g}", percent(p.accuracy, p.ci95), str(p.step))
        table.add_row(*row, "best" if p == result.best else "")
    out.print(table)
    if result.at_edge:
        out.print("the best alpha is at the edge of the values tried: a better one may lie beyond")
    out.print(f"written: {result.plot or folder / 'sweep.md'}", soft_wrap=True)
