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
from tadam.cli.data import data_app
from tadam.cli.evaluate import evaluate
from tadam.cli.export import export
from tadam.cli.fit import fit
from tadam.cli.flags import with_flags
from tadam.cli.options import Json, Recipe, TrainingOptions
from tadam.cli.predict import predict
from tadam.cli.reproduce import reproduce_app
from tadam.cli.settings import settings
from tadam.cli.sweep import sweep_app
from tadam.cli.typer_app import App
from tadam.errors import Interrupted, LostProcess, RunFailed, UserError
from tadam.reports.terminal import alarm, err, out, percent, print_json
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
for command in (fit, predict, evaluate, export, bench, settings):
    app.command()(command)


def main() -> None:
    """Runs the command line; a mistake ends in one sentence, never in a traceback."""
    for stream in (sys.stdout, sys.stderr):  # a terminal without "±" shows "?", not a traceback
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app(prog_name="tadam")
    except SystemExit as ended:
        if ended.code == 130:  # Ctrl-C, of which Typer says nothing
            err.print("stopped")
        raise
    except UserError as error:
        _fail(str(error), 2)
    except (LostProcess, OSError, MemoryError) as error:
        _fail(str(error) or "out of memory", 1, alarm)
    except Interrupted as stop:  # asked for, so no error, but not all that was wanted either
        err.print(with_flags(str(stop)), soft_wrap=True)
        sys.exit(1)
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
def recipes(
    name: Annotated[
        str | None, typer.Argument(help="Print this one, every key written out.")
    ] = None,
) -> None:
    """List the shipped recipes, or print one to copy and change."""
    from tadam.recipes import load_recipe, recipe_names

    sys.stdout.write(load_recipe(name).to_toml() if name else "\n".join(recipe_names()) + "\n")
