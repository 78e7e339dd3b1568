"""The command line: each command is a thin call to a function that Python users can call too.

torch is imported inside the commands, so that --help answers at once.
"""

import io
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tadam.cli_experiments import reproduce_app, sweep_app
from tadam.cli_options import Dataset, Device, Json, Recipe, Resume, Settings
from tadam.errors import RunFailed, UserError
from tadam.terminal import err, out, percent, print_evaluation, print_json, progress_bar

app = typer.Typer(
    name="tadam",
    help="Few-shot image classification that works (TADAM, NeurIPS 2018).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="List, prepare, verify and show data sets.", no_args_is_help=True)
app.add_typer(data_app, name="data")
app.add_typer(sweep_app, name="sweep")
app.add_typer(reproduce_app, name="reproduce")


def main() -> None:
    """Runs the command line; a mistake ends in one sentence, never in a traceback."""
    for stream in (sys.stdout, sys.stderr):  # a terminal without "±" shows "?", not a traceback
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app()
    except UserError as error:
        _fail(str(error), 2)
    except RunFailed as error:
        _fail(str(error), 1)
    except (OSError, MemoryError) as error:
        _fail(str(error) or "out of memory", 1)
    except RuntimeError as error:
        if "allocate memory" not in str(error) and "out of memory" not in str(error):
            raise
        _fail("out of memory: try fewer tasks, a smaller width or smaller images", 1)


def _fail(sentence: str, code: int) -> None:
    err.print("error:", style="bold red", end=" ")
    err.print(sentence, soft_wrap=True)
    sys.exit(code)


def _version(wanted: bool) -> None:
    if wanted:
        from tadam import __version__

        out.print(f"tadam {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it and stop.")
    ] = False,
) -> None:
    """Few-shot image classification that works (TADAM, NeurIPS 2018)."""


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--out", help="Where runs and report go.")] = Path(
        "runs/demo"
    ),
) -> None:
    """Train and measure TADAM on the built-in benchmark, with a report to look at."""
    from tadam.demo import run_demo

    run_demo(folder, out)


@app.command()
def train(
    recipe: Recipe,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Run folder; runs/RECIPE if not given.")
    ] = None,
    dataset: Dataset = None,
    settings: Settings = None,
    resume: Resume = False,
    device: Device = "auto",
) -> None:
    """Train a model by a recipe ('tadam recipes' lists them)."""
    from tadam.training.progress import TerminalReporter
    from tadam.training.run import train as run

    folder = folder or Path("runs") / Path(recipe).stem
    if resume and not folder.exists():
        err.print(f"nothing to resume in {folder}: starting", soft_wrap=True)
    result = run(
        recipe,
        folder,
        dataset=dataset,
        settings=settings or [],
        resume=resume,
        device=device,
        reporter=TerminalReporter(err),
    )
    out.print(
        f"best validation accuracy {percent(result.best_accuracy, result.best_ci95)} at step "
        f"{result.best_step} of {result.steps}, {result.seconds / 60:.1f} minutes; "
        f"weights in {result.folder / 'best.safetensors'}",
        soft_wrap=True,
    )


@app.command()
def evaluate(
    model: Annotated[str, typer.Argument(help="A run folder or a weights file.")],
    dataset: Annotated[str, typer.Option(help="Data set, e.g. shapes or folder:PATH.")],
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    way: Annotated[int, typer.Option(help="Classes in a task.")] = 5,
    shot: Annotated[int, typer.Option(help="Labelled images of a class.")] = 5,
    tasks: Annotated[int, typer.Option(help="Random tasks.")] = 500,
    queries: Annotated[int, typer.Option(help="Query images of a task.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Fixes the tasks.")] = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measure accuracy on random tasks, with conditioning on and off."""
    from tadam.evaluation import evaluate as run

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


@data_app.command("list")
def data_list(as_json: Json = False) -> None:
    """What there is, and how to get it."""
    from dataclasses import asdict

    from tadam.data.catalogue import SOURCES

    if as_json:
        print_json([asdict(source) for source in SOURCES])
        return
    table = Table("name", "what", "classes", "images", "size", "licence", "how to get it")
    for source in SOURCES:
        table.add_row(*asdict(source).values())
    out.print(table)


DataName = Annotated[str, typer.Argument(help="shapes, or folder:PATH.")]
ImageSize = Annotated[int, typer.Option(help="Side in pixels; 0 for the data set's own.")]


@data_app.command("prepare")
def data_prepare(name: DataName, image_size: ImageSize = 0) -> None:
    """Draw or decode a data set into the cache."""
    from tadam.config import DataConfig
    from tadam.data.catalogue import load_splits

    with progress_bar("preparing") as progress:
        stores = load_splits(DataConfig(name, image_size), progress)
    for split, store in stores.items():
        out.print(f"{split:>5}: {len(store.class_names)} classes, {len(store.images)} images")


@data_app.command("verify")
def data_verify(name: DataName) -> None:
    """Check every image of a data set; exit code 1 if one is broken."""
    from tadam.data.catalogue import verify

    with progress_bar("verifying") as progress:
        problems = verify(name, progress)
    for problem in problems:
        out.print(problem, soft_wrap=True)
    if problems:
        raise RunFailed(f"{name}: {len(problems)} problems found")
    out.print(f"{name}: all good", soft_wrap=True)


@data_app.command("show")
def data_show(
    name: DataName,
    split: Annotated[str, typer.Option(help="train, val or test.")] = "train",
    file: Annotated[
        Path | None, typer.Option("--out", help="PNG to write; NAME-SPLIT.png if not given.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Draw a contact sheet: a row of images per class."""
    from tadam.config import DataConfig
    from tadam.data.catalogue import load_split
    from tadam.data.contact_sheet import write_contact_sheet

    file = file or Path(f"{Path(name.partition(':')[2] or name).name}-{split}.png")
    with progress_bar("reading") as progress:
        store = load_split(DataConfig(name), split, progress)
    write_contact_sheet(store, file, force)
    out.print(f"written: {file}", soft_wrap=True)
