"""The command line: each command is a thin call to a function that Python users can call too.

torch is imported inside the commands, so that --help answers at once.
"""

import io
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tadam.cli.bench import bench
from tadam.cli.classify import Strict, evaluate_classifier, fit, predict
from tadam.cli.data import data_app
from tadam.cli.export import export
from tadam.cli.flags import with_flags
from tadam.cli.options import DataDir, Device, Json, Recipe, TrainingOptions
from tadam.cli.reproduce import reproduce_app
from tadam.cli.sweep import sweep_app
from tadam.cli.typer_app import App
from tadam.errors import LostProcess, RunFailed, UserError
from tadam.reports.terminal import (
    alarm,
    err,
    out,
    percent,
    print_evaluation,
    print_json,
    progress_bar,
)
from tadam.system.torchrun import place

app = App(
    name="tadam",
    help="Few-shot image classification that works (TADAM, NeurIPS 2018).",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data_app, name="data")
app.add_typer(sweep_app, name="sweep")
app.add_typer(reproduce_app, name="reproduce")
app.command()(fit)
app.command()(predict)
app.command()(bench)
app.command()(export)


def main() -> None:
    """Runs the command line; a mistake ends in one sentence, never in a traceback."""
    for stream in (sys.stdout, sys.stderr):  # a terminal without "±" shows "?", not a traceback
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app(prog_name="tadam")
    except UserError as error:
        _fail(str(error), 2)
    except (LostProcess, OSError, MemoryError) as error:
        _fail(str(error) or "out of memory", 1, alarm)
    except RunFailed as error:
        _fail(str(error), 1)
    except RuntimeError as error:
        if "allocate memory" not in str(error) and "out of memory" not in str(error):
            raise
        _fail("out of memory: try fewer tasks, a smaller width or smaller images", 1, alarm)


def _fail(sentence: str, code: int, console: Console = err) -> None:
    console.print("error:", style="bold red", end=" ")
    console.print(with_flags(sentence), soft_wrap=True)
    sys.exit(code)


def _version(wanted: bool) -> None:
    if wanted:
        from tadam import __version__

        out.print(f"tadam {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it and stop.")
    ] = False,
) -> None:
    """Few-shot image classification that works (TADAM, NeurIPS 2018)."""
    if place().size > 1 and context.invoked_subcommand not in ("train", "evaluate"):
        raise UserError("torchrun is for 'tadam train' and 'tadam evaluate': leave it out here")


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--out", help="Where runs and report go.")] = Path(
        "runs/demo"
    ),
) -> None:
    """Train and measure TADAM on the built-in benchmark, with a report to look at."""
    from tadam.reproduce.demo import run_demo

    run_demo(folder, out)


@app.command()
def train(
    recipe: Recipe,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Run folder; runs/RECIPE if not given.")
    ] = None,
    *,
    training: TrainingOptions,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only say how long it would take here.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a model by a recipe ('tadam recipes' lists them)."""
    from tadam.reports.training_progress import TerminalReporter, print_estimate
    from tadam.training.run import train as run

    if estimate and training.resume:
        raise UserError("--estimate is of a whole run: leave --resume out")
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


@app.command()
def evaluate(
    context: typer.Context,
    model: Annotated[
        str, typer.Argument(help="A model's name, a run folder, a weights or a .tadam file.")
    ],
    folder: Annotated[
        Path | None,
        typer.Argument(help="For a .tadam file: labelled images, a sub-folder per class."),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="For a model, e.g. fc100 or folder:PATH.")
    ] = None,
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    way: Annotated[int, typer.Option(help="Classes in a task.")] = 5,
    shot: Annotated[int, typer.Option(help="Labelled images of a class.")] = 5,
    tasks: Annotated[int, typer.Option(help="Random tasks.")] = 500,
    queries: Annotated[int, typer.Option(help="Query images of a task.")] = 100,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Fixes the tasks.")] = 0,
    device: Device = "auto",
    data: DataDir = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Measure a model on random tasks, or what 'tadam fit' wrote on a labelled folder."""
    if (folder is None) == (dataset is None):
        raise UserError(
            "a classifier is measured on a folder, 'tadam evaluate FILE.tadam FOLDER', a model on "
            "a data set, 'tadam evaluate MODEL --dataset NAME': give one of the two"
        )
    if folder is not None:
        for name in ("split", "way", "shot", "tasks", "queries", "seed"):
            source = context.get_parameter_source(name)
            if source is not None and source.name == "COMMANDLINE":
                raise UserError(f"--{name} is for a model on a --dataset: leave it out here")
        evaluate_classifier(Path(model), folder, strict, device, as_json)
        return
    assert dataset is not None
    if strict:
        raise UserError("--strict is for a classifier on a folder: leave it out here")
    from tadam.evaluation.tasks import evaluate as run

    with progress_bar("evaluating") as progress:
        result = run(model, dataset, split, way, shot, tasks, queries, seed, device, progress)
    if as_json:
        print_json(result.to_json())
    else:
        print_evaluation(result)


@app.command()
def recipes(
    name: Annotated[
        str | None, typer.Argument(help="Print this one, every key written out.")
    ] = None,
) -> None:
    """List the shipped recipes, or print one to copy and change."""
    from tadam.recipes import load_recipe, recipe_names

    sys.stdout.write(load_recipe(name).to_toml() if name else "\n".join(recipe_names()) + "\n")
