"""`tadam train`, `tadam demo` and `tadam recipes`: models of one's own."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tadam.cli.options import Json, Recipe, TrainingOptions
from tadam.errors import UserError
from tadam.reports.terminal import err, out, percent, print_json


def demo(
    folder: Annotated[Path, typer.Option("--out", help="Where runs and report go.")] = Path(
        "runs/demo"
    ),
) -> None:
    """Train and measure TADAM on the built-in benchmark, with a report to look at."""
    from tadam.reproduce.demo import run_demo

    run_demo(folder, out)


def train(
    recipe: Recipe,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Run folder; runs/RECIPE by default.")
    ] = None,
    *,
    training: TrainingOptions,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only estimate how long it would take here.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a model from a recipe ('tadam recipes' lists them)."""
    from tadam.reports.training_progress import TerminalReporter, print_estimate
    from tadam.training.run import train as run

    if estimate and training.resume:
        raise UserError("--estimate is for a whole run: leave --resume out")
    if estimate:
        from tadam.training.estimate import estimate as try_out

        with err.status("trying a few steps"):
            expected = try_out(
                recipe,
                dataset=training.dataset,
                settings=training.settings or [],
                device=training.device,
            )
        if as_json:
            print_json(expected.to_json())
        else:
            print_estimate(out, expected)
        return
    folder = folder or Path("runs") / Path(recipe).stem
    if training.resume and not folder.exists():
        err.print(f"nothing to resume in {folder}: starting", soft_wrap=True)
    result = run(
        recipe,
        folder,
        dataset=training.dataset,
        settings=training.settings or [],
        resume=training.resume,
        device=training.device,
        reporter=TerminalReporter(err),
    )
    if as_json:
        print_json({**asdict(result), "folder": str(result.folder)})
        return
    out.print(
        f"best validation accuracy {percent(result.best_accuracy, result.best_ci95 or None)} "
        f"at step {result.best_step} of {result.steps}, {result.seconds / 60:.1f} minutes; "
        f"weights in {result.folder / 'best.safetensors'}",
        soft_wrap=True,
    )


def recipes(
    name: Annotated[
        str | None, typer.Argument(help="Print this one, every key written out.")
    ] = None,
) -> None:
    """List the shipped recipes, or print one to copy and change."""
    from tadam.recipes import load_recipe, recipe_names

    sys.stdout.write(load_recipe(name).to_toml() if name else "\n".join(recipe_names()) + "\n")
