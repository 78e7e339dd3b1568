"""`tadam train`, `tadam demo` and `tadam recipes`: models of one's own."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tadam.cli.options import Json, Recipe, TrainingOptions
from tadam.errors import UserError
from tadam.reports.terminal import err, out, percent, print_json

#: A run of fewer steps is not worth an estimate.
_SOON_SEEN = 50


def demo(
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Where runs and report go; runs/demo by default, or -seedN."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Seed of the training; tests keep theirs.")
    ] = 0,
) -> None:
    """Train and measure TADAM on the built-in benchmark, with a report to look at."""
    from tadam.reproduce.demo import run_demo

    folder = folder or Path("runs") / (f"demo-seed{seed}" if seed else "demo")
    run_demo(folder, out, (f"run.seed={seed}",))


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
    if not training.resume and not folder.exists():
        _tell_time(recipe, training)
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


def _tell_time(recipe: str, training: TrainingOptions) -> None:
    """Says how long a run on one's own images will take, unless that is soon seen anyway."""
    from tadam.data.folder import FOLDER_PREFIX
    from tadam.recipes import resolve
    from tadam.reports.training_progress import duration
    from tadam.system.torchrun import place
    from tadam.training.estimate import estimate

    config = resolve(recipe, training.settings or [], training.dataset)
    own = config.data.name.startswith(FOLDER_PREFIX)
    if not own or config.schedule.episodes < _SOON_SEEN or place().size > 1:
        return
    with err.status("trying a few steps"):
        expected = estimate(config, device=training.device, trial_seconds=1.0)
    err.print(
        f"about {duration(expected.seconds)} here ({expected.device}); you can stop it with Ctrl-C "
        "and continue with --resume",
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
