"""`tadam evaluate`: how good a model is on random tasks, or a classifier on labelled images."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tadam.cli.evaluated_photos import print_evaluated, write_evaluation_csv
from tadam.cli.files import PhotoFiles, check_inputs
from tadam.cli.flags import flag
from tadam.cli.labelled_photos import Nested
from tadam.cli.options import DataDir, Device, Json, NoCache, Strict
from tadam.cli.skipped import told
from tadam.errors import UserError
from tadam.reports.terminal import out, print_evaluation, print_json, progress_bar
from tadam.system.untrusted_text import printable

if TYPE_CHECKING:
    from tadam.classify.classifier import FewShotClassifier

#: Options for a model on a data set, and for a classifier on a folder.
_MODEL = ("split", "way", "shot", "tasks", "queries", "seed", "within_family", "balanced")
_CLASSIFIER = ("strict", "reject", "nested", "no_cache", "csv_file", "report", "force")

Balanced = Annotated[
    bool, typer.Option("--balanced", help="As many queries of each class; else at random.")
]


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
    balanced: Balanced = False,
    device: Device = "auto",
    data: DataDir = None,
    strict: Strict = False,
    reject: Annotated[
        bool, typer.Option("--reject", help="Measure 'unknown' too, on a folder of that name.")
    ] = False,
    nested: Nested = False,
    no_cache: NoCache = False,
    as_json: Json = False,
    *,
    files: PhotoFiles,
) -> None:
    """Measure a model on random tasks, or a classifier on a labelled folder."""
    if folder is not None and dataset is not None:
        raise UserError(
            "a classifier is measured on a folder, 'tadam evaluate FILE.tadam FOLDER', a model on "
            "a data set, 'tadam evaluate MODEL --dataset NAME': give one of the two"
        )
    if folder is not None:
        _refuse(context, _MODEL, "a model on a --dataset")
        settings = {"reject": reject, "nested": nested, "thumbnails": files.report is not None}
        classifier = _loaded(Path(model), folder, files, device).set_params(cache=not no_cache)
        _evaluate_classifier(classifier, folder, files, strict, as_json, settings)
        return
    _refuse(context, _CLASSIFIER, "a classifier on a folder")
    from tadam.evaluation.tasks import evaluate as run

    with progress_bar("evaluating") as progress:
        size = (way, shot, tasks, queries, seed)
        share = float(within_family)
        result = run(model, dataset, split, *size, device, progress, share, balanced)
    if as_json:
        print_json(result.to_json())
    else:
        print_evaluation(result)


def _refuse(context: typer.Context, names: tuple[str, ...], purpose: str) -> None:
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise UserError(f"{flag(name)} is for {purpose}: leave it out here")


def _loaded(file: Path, folder: Path, files: PhotoFiles, device: str) -> "FewShotClassifier":
    """The classifier, once everything else that is named is there and can be written."""
    if not file.is_file():
        raise UserError(
            f"there is no classifier {file}: name a file that 'tadam fit' wrote, or measure a "
            "model with --dataset NAME instead of a folder"
        )
    check_inputs([folder])
    files.check(file)
    from tadam.classify.classifier import FewShotClassifier

    return FewShotClassifier.load(file, device=device)


def _evaluate_classifier(
    classifier: "FewShotClassifier",
    folder: Path,
    files: PhotoFiles,
    strict: bool,
    as_json: bool,
    settings: dict[str, bool],
) -> None:
    from tadam.evaluation.folders import evaluate_folder

    with told() as problems, progress_bar("classifying") as progress:
        told_or_raised = None if strict else problems
        result = evaluate_folder(classifier, folder, progress, told_or_raised, **settings)
    if files.csv_file:
        write_evaluation_csv(files.csv_file, result)
    if files.report:
        from tadam.reports.evaluation_report import write_evaluation_report

        write_evaluation_report(files.report, result)
    if as_json:
        print_json(result.to_json())
        return
    print_evaluated(result)
    for written in files.named:
        out.print(f"written: {printable(written)}", soft_wrap=True)
