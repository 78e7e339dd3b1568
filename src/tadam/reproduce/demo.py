"""`tadam demo`: trains TADAM and what it builds on, measures them all, writes a report."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tadam.config import Config
from tadam.data.catalogue import load_splits
from tadam.data.episodes import EpisodeSampler
from tadam.data.store import ImageStore
from tadam.evaluation.tasks import Evaluation, evaluate_tasks, training_tasks
from tadam.methods.base import InputSpec, Method, build_model
from tadam.models.find import BEST
from tadam.models.modelfile import load_model
from tadam.recipes import load_recipe
from tadam.reports.demo_report import write_report
from tadam.reports.demo_row import VECTOR_COLUMNS, Row
from tadam.reports.terminal import percent, points, progress_bar
from tadam.reports.training_progress import TerminalReporter
from tadam.system.files import write_text
from tadam.training.run import train
from tadam.training.run_folder import check_folder

#: Tasks, queries and seed of every number the demo prints.
TEST_TASKS, QUERIES, SEED = 500, 100, 0
#: Classes of a task: uniform, and within a family; the smallest family has four test classes.
WAY, FAMILY_WAY = 5, 4

_PLAIN = ("conditioning.enabled=false",)
#: Marks a folder as the demo's.
MARKER = "demo.toml"


@dataclass(frozen=True)
class Contestant:
    """A model of the demo: name in tables, run folder, changes to the recipe `shapes`."""

    name: str
    folder: str
    settings: tuple[str, ...]


CONTESTANTS = (
    Contestant(
        "Prototypical Network, no scaling",
        "prototypical",
        (*_PLAIN, "metric.alpha=1.0", "metric.learn_alpha=false"),
    ),
    Contestant("Prototypical Network, scaled", "scaled", _PLAIN),
    Contestant(
        "TADAM, the paper's mean",
        "paper",
        (
            "conditioning.layers=all",
            "conditioning.representation=mean",
            "conditioning.standardise=false",
            "conditioning.base=false",
            "conditioning.dropout=0",
            "auxiliary.enabled=true",
        ),
    ),
    Contestant("TADAM with moments", "tadam", ()),
)


@dataclass(frozen=True)
class DemoResult:
    """A model's test results: on tasks drawn uniformly, and on tasks within a family."""

    uniform: Evaluation
    family: Evaluation


def run_demo(folder: Path, console: Console, settings: tuple[str, ...] = ()) -> Path:
    """Runs the whole demo into a folder and returns the report's path.

    A stopped demo resumes where it was; a finished one is only measured again.

    Args:
        folder: Gets a run folder per model, `results.json` and `report.html`.
        console: Where progress is printed.
        settings: Changes to every model's recipe.
    """
    started = time.monotonic()
    recipe = load_recipe("shapes").with_settings([*settings])
    check_folder(folder, recipe, resume=True, marker=MARKER)
    with console.status("drawing the benchmark (only the first time) ..."):
        stores = load_splits(recipe.data)
    train_classes, val_classes, test_classes = (len(s.class_names) for s in stores.values())
    console.print(
        f"shapes: {train_classes} classes to train on, {val_classes} to validate on, "
        f"{test_classes} unseen ones to test on"
    )
    samplers = _samplers(stores["test"])
    pixels = _measured(pixel_model(recipe, stores["train"]), samplers)
    write_text(folder / MARKER, recipe.to_toml())
    rows = [_row("Raw pixels, nearest class mean", pixels, 0.0)]
    for contestant in CONTESTANTS:
        console.print(f"\n{contestant.name}", style="bold")
        run = train(
            recipe.with_settings([*contestant.settings, *settings]),
            folder / contestant.folder,
            resume=True,
            reporter=TerminalReporter(console),
        )
        model, info = load_model(run.folder / BEST)
        found = _measured(model, samplers, training_tasks(contestant.name, info))
        rows.append(_row(contestant.name, found, run.seconds))
    console.print()
    console.print(_table(rows))
    console.print(_vectors(rows))
    for sentence in (text for row in rows for text in row.sentences):
        console.print(sentence)
    minutes = (time.monotonic() - started) / 60
    write_text(folder / "results.json", json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    runs = {c.name: folder / c.folder for c in CONTESTANTS}
    report = folder / "report.html"
    write_report(report, rows, runs, model, found.uniform, samplers)
    console.print(
        f"\nDone in {minutes:.1f} minutes. Now open {report}, then try\n"
        f"  tadam evaluate {run.folder} --shot 1\n"
        "  tadam train images --dataset folder:PATH\n"
        "or classify your own photos from a few examples of each class, without training:\n"
        "  tadam fit FOLDER -o FILE.tadam",
        markup=False,
        soft_wrap=True,
    )
    return report


def _samplers(test: ImageStore) -> tuple[EpisodeSampler, EpisodeSampler]:
    """Test tasks: uniform ones, and such that are each within a family."""
    return (
        EpisodeSampler(test, WAY, 5, QUERIES, SEED),
        EpisodeSampler(test, FAMILY_WAY, 5, QUERIES, SEED, within_family=1.0),
    )


def _measured(
    model: Method,
    samplers: tuple[EpisodeSampler, EpisodeSampler],
    training: EpisodeSampler | None = None,
) -> DemoResult:
    found = []
    for sampler in samplers:
        with progress_bar("testing") as progress:
            found.append(
                evaluate_tasks(model, sampler, TEST_TASKS, progress=progress, training=training)
            )
    return DemoResult(*found)


def pixel_model(recipe: Config, store: ImageStore) -> Method:
    """Nearest class mean on raw pixels, wrapped as a model."""
    config = recipe.with_settings(["conditioning.enabled=false", "backbone.name=pixels"])
    model = build_model(config, InputSpec(store.channels, store.image_size, 0))
    model.initialise(config, *store.channel_statistics())
    return model


def _row(name: str, found: DemoResult, seconds: float) -> Row:
    uniform, family = found.uniform, found.family
    return Row(
        name,
        uniform.accuracy,
        uniform.ci95,
        family.accuracy,
        family.ci95,
        seconds,
        {"uniform": uniform.controls, "family": family.controls},
    )


def _table(rows: list[Row]) -> Table:
    table = Table(
        "5-shot, unseen classes",
        f"{WAY}-way, uniform",
        f"{FAMILY_WAY}-way, family",
        "family: own - other",
        "training",
    )
    for row in rows:
        other = row.other
        table.add_row(
            row.name,
            percent(row.accuracy, row.ci95),
            percent(row.family, row.family_ci95),
            "" if other is None else points(*other),
            row.training,
        )
    table.caption = f"{TEST_TASKS} tasks x {QUERIES} queries, seed {SEED}"
    return table


def _vectors(rows: list[Row]) -> Table:
    """Every conditioned row under a task's own vectors, another's, the mean, and none."""
    table = Table(*VECTOR_COLUMNS)
    for line in (line for row in rows for line in row.vectors):
        table.add_row(*line)
    return table
