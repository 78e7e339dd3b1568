"""`tadam evaluate`: how good a model is on random tasks, or a classifier on labelled images."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tadam.cli.files import check_inputs
from tadam.cli.options import DataDir, Device, Json, Strict
from tadam.cli.skipped import told
from tadam.errors import UserError
from tadam.reports.terminal import out, percent, print_evaluation, print_json, progress_bar

if TYPE_CHECKING:
    from tadam.evaluation.folders import FolderEvaluation

#: A confusion matrix of more classes than this does not fit a terminal.
_CLASSES = 12


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
        str | None,
        typer.Option(help="For a model, e.g. fc100 or folder:PATH; its recipe's by default."),
    ] = None,
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    way: Annotated[int, typer.Option(help="Classes in a task.")] = 5,
    shot: Annotated[int, typer.Option(help="Labelled images of a class.")] = 5,
    tasks: Annotated[int, typer.Option(help="Random tasks.")] = 500,
    queries: Annotated[int, typer.Option(help="Query images of a task.")] = 100,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the tasks.")] = 0,
    within_family: Annotated[
        bool,
        typer.Option("--within-family", help="Tasks of one family of classes, e.g. a superclass."),
    ] = False,
    device: Device = "auto",
    data: DataDir = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Measure a model on random tasks, or a classifier on a labelled folder."""
    if folder is not None and dataset is not None:
        raise UserError(
            "a classifier is measured on a folder, 'tadam evaluate FILE.tadam FOLDER', a model on "
            "a data set, 'tadam evaluate MODEL --dataset NAME': give one of the two"
        )
    if folder is not None:
        for name in ("split", "way", "shot", "tasks", "queries", "seed", "within_family"):
            source = context.get_parameter_source(name)
            if source is not None and source.name == "COMMANDLINE":
                raise UserError(f"`{name}` is for a model on a `dataset`: leave it out here")
        _evaluate_classifier(Path(model), folder, strict, device, as_json)
        return
    if strict:
        raise UserError("--strict is for a classifier on a folder: leave it out here")
    from tadam.evaluation.tasks import evaluate as run

    with progress_bar("evaluating") as progress:
        share = float(within_family)
        result = run(
            model, dataset, split, way, shot, tasks, queries, seed, device, progress, share
        )
    if as_json:
        print_json(result.to_json())
    else:
        print_evaluation(result)


def _evaluate_classifier(
    file: Path, folder: Path, strict: bool, device: str, as_json: bool
) -> None:
    from tadam.classify.classifier import FewShotClassifier
    from tadam.evaluation.folders import evaluate_folder

    if not file.is_file():
        raise UserError(
            f"there is no classifier {file}: name a file that 'tadam fit' wrote, or measure a "
            "model with --dataset NAME instead of a folder"
        )
    check_inputs([folder])
    classifier = FewShotClassifier.load(file, device=device)
    with told() as problems, progress_bar("classifying") as progress:
        result = evaluate_folder(classifier, folder, progress, None if strict else problems)
    if as_json:
        print_json(result.to_json())
    else:
        _print_classifier(result)


def _print_classifier(result: "FolderEvaluation") -> None:
    """Accuracy, the classes from worst to best, and the confusion matrix if it fits."""
    table = Table(show_header=False)
    table.add_row("images", str(result.images))
    table.add_row("accuracy", percent(result.accuracy), style="bold")
    table.add_row("calibration error", percent(result.calibration_error))
    out.print(table)
    classes = Table("class", "images", "accuracy", "most often mistaken for")
    for name, share in sorted(result.per_class.items(), key=lambda item: item[1]):
        own = result.class_names.index(name)
        row = result.confusion[own]
        wrong = [0 if k == own else count for k, count in enumerate(row)]
        taken = result.class_names[wrong.index(max(wrong))] if max(wrong) else "-"
        classes.add_row(name, str(sum(row)), percent(share), taken)
    out.print(classes)
    if len(result.class_names) > _CLASSES:
        out.print(f"--json has the {len(result.class_names)} x {len(result.class_names)} confusion")
        return
    matrix = Table("true \\ answer", *result.class_names)
    for name, row in zip(result.class_names, result.confusion, strict=True):
        matrix.add_row(name, *map(str, row))
    out.print(matrix)
