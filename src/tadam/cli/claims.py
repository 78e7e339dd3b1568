"""Commands that look at a trained model for what the paper claims without a figure."""

import time
from dataclasses import replace
from typing import Annotated

import typer

from tadam.cli.options import DataDir, Json
from tadam.cli.tables import FOLDER, Out, print_table, print_written
from tadam.reports.terminal import out, print_json, progress_bar

_Model = Annotated[str, typer.Option("--model", help="A model's name, a run folder or a file.")]
_Dataset = Annotated[
    str | None, typer.Option("--dataset", help="A data set; that of its recipe by default.")
]
_Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the tasks.")]


def _words(name: str, model: str, dataset: str | None, seed: int) -> list[object]:
    """The command, for `origin`."""
    return [name, "--model", model, *(["--dataset", dataset] if dataset else []), "--seed", seed]


def gradients(
    model: _Model = "fc100",
    dataset: _Dataset = None,
    folder: Out = FOLDER,
    seed: _Seed = 0,
    data: DataDir = None,
    as_json: Json = False,
) -> None:
    """The share of queries that still give gradients, against alpha, for a trained model."""
    from tadam.reproduce import gradients as claim
    from tadam.reproduce.origin import origin

    started = time.monotonic()
    with progress_bar("embedding") as progress:
        result = claim.gradient_shares(model, dataset, seed=seed, progress=progress)
    made = origin(_words("gradients", model, dataset, seed), started)
    result = replace(result, origin=made)
    written = claim.write_gradients(folder, result)
    if as_json:
        print_json(result.to_json())
        return
    title = "Queries that give gradients, against alpha"
    print_table(title, claim.GRADIENT_COLUMNS, claim.gradient_rows(result))
    for note in claim.gradient_notes(result):
        out.print(note)
    print_written(written)


def task_clusters(
    model: _Model = "fc100",
    dataset: _Dataset = None,
    folder: Out = FOLDER,
    seed: _Seed = 0,
    data: DataDir = None,
    as_json: Json = False,
) -> None:
    """Whether tasks with classes in common have similar representations, as a picture."""
    from tadam.reproduce import task_clusters as claim
    from tadam.reproduce.origin import origin

    started = time.monotonic()
    with progress_bar("embedding") as progress:
        result = claim.task_clusters(model, dataset, seed, progress)
    made = origin(_words("task-clusters", model, dataset, seed), started)
    result = replace(result, origin=made)
    written = claim.write_task_clusters(folder, result)
    if as_json:
        print_json(result.to_json())
        return
    title = "Task representations and shared classes"
    print_table(title, claim.CLUSTER_COLUMNS, claim.cluster_rows(result))
    for note in claim.cluster_notes(result):
        out.print(note)
    print_written(written)
