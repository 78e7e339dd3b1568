"""`tadam fit`, `tadam predict` and `tadam evaluate FILE.tadam`: classify one's own pictures."""

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tadam.cli.options import Device, Force, Json, check_outputs
from tadam.errors import UserError
from tadam.reports.terminal import err, out, percent, print_json, progress_bar

if TYPE_CHECKING:
    from tadam.classify.classifier import FewShotClassifier
    from tadam.classify.predictions import Prediction
    from tadam.evaluation.folders import FolderEvaluation

#: Sentences about broken files that are printed; the rest is only counted.
_SHOWN = 20
#: Up to this many images get a row each.
_ROWS = 20
#: A table with a row or a column for each of more classes than this does not fit a terminal.
_CLASSES = 12

Strict = Annotated[
    bool, typer.Option("--strict", help="Stop at a file that cannot be read, do not skip it.")
]


def fit(
    folder: Annotated[Path, typer.Argument(help="Holds a sub-folder of images for each class.")],
    output: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE.tadam", help="Where the classifier goes.")
    ],
    model: Annotated[
        str | None,
        typer.Option(help="A shipped model's name, a run folder or a weights file."),
    ] = None,
    strict: Strict = False,
    force: Force = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Learn the classes of a folder of pictures: seconds, no training."""
    check_outputs([output], force)
    from tadam.classify.classifier import FewShotClassifier
    from tadam.classify.support import labelled
    from tadam.data.folder import SPLITS_FILE, left_out

    classifier = FewShotClassifier(model, device=device)
    with _told() as problems, progress_bar("reading") as progress:
        files, labels = labelled(folder)
        used = [file for file in files if isinstance(file, Path)]
        problems += left_out(folder, [*used, folder / SPLITS_FILE])
        classifier.fit(files, labels, progress=progress, problems=None if strict else problems)
    classifier.save(output)
    images, way = len(classifier.support_labels_), len(classifier.classes_)
    if as_json:
        print_json(
            {
                "file": str(output),
                "classes": classifier.classes_.tolist(),
                "images": images,
                "skipped": problems,
                "alpha": classifier.predictor_.alpha.item(),
                "reject_threshold": classifier.reject_threshold_,
            }
        )
        return
    rejection = (
        f"an image further than {classifier.reject_threshold_:.3g} from every class is 'unknown' "
        "to predict --reject"
    )
    if "unknown" in classifier.classes_.tolist():
        rejection = "predict --reject will not work, because a class is called 'unknown'"
    out.print(f"{output}: {way} classes from {images} images; {rejection}", soft_wrap=True)


def predict(
    classifier: Annotated[Path, typer.Argument(metavar="FILE.tadam", help="Written by tadam fit.")],
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="Images, or folders of them.")
    ],
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write a row for each image.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a page to look at.")
    ] = None,
    reject: Annotated[
        bool, typer.Option("--reject", help="Answer 'unknown' for an image far from every class.")
    ] = False,
    reject_threshold: Annotated[
        float | None,
        typer.Option(metavar="X", min=0.0, help="How far that is; else as learnt. Means --reject."),
    ] = None,
    strict: Strict = False,
    force: Force = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Sort pictures into the classes that were learnt."""
    outputs = [file for file in (csv_file, report) if file]
    check_outputs(outputs, force, classifier)
    from tadam.classify.classifier import FewShotClassifier
    from tadam.data.folder import image_files, left_out
    from tadam.system.files import write_text

    known = FewShotClassifier.load(classifier, device=device)
    if reject_threshold is not None:
        known.reject_threshold_, reject = reject_threshold, True
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} does not exist: check the path")
    found: list[Path] = []
    with _told() as problems, progress_bar("classifying") as progress:
        for path in paths:
            if path.is_dir():
                images = image_files(path)
                problems += left_out(path, images)
                found += images
            else:
                found.append(path)
        if not found:
            raise UserError(f"there are no images in {', '.join(map(str, paths))}: check the path")
        predictions = known.classify(
            found,
            reject=reject,
            thumbnails=report is not None,
            progress=progress,
            problems=None if strict else problems,
        )
    if csv_file:
        write_text(csv_file, _csv(known, predictions))
    if report:
        from tadam.reports.prediction_report import write_report

        write_report(report, known, predictions)
    if as_json:
        print_json({"predictions": _rows(known, predictions), "skipped": problems})
        return
    if len(predictions) <= _ROWS:
        _print_rows(predictions)
    else:
        _print_summary(known, predictions)
    for file in outputs:
        out.print(f"written: {file}", soft_wrap=True)


def evaluate_classifier(file: Path, folder: Path, strict: bool, device: str, as_json: bool) -> None:
    """What `tadam evaluate FILE.tadam FOLDER` does."""
    from tadam.classify.classifier import FewShotClassifier
    from tadam.evaluation.folders import evaluate_folder

    if not file.is_file():
        raise UserError(
            f"there is no classifier {file}: name a file that 'tadam fit' wrote, or measure a "
            "model with --dataset NAME instead of a folder"
        )
    classifier = FewShotClassifier.load(file, device=device)
    with _told() as problems, progress_bar("classifying") as progress:
        result = evaluate_folder(classifier, folder, progress, None if strict else problems)
    if as_json:
        print_json(result.to_json())
    else:
        _print_evaluation(result)


@contextmanager
def _told() -> Iterator[list[str]]:
    """Yields a list for sentences on what is skipped; they go to stderr, whatever happens."""
    problems: list[str] = []
    try:
        yield problems
    finally:
        for sentence in problems[:_SHOWN]:
            err.print(f"skipped: {sentence}", soft_wrap=True)
        if len(problems) > _SHOWN:
            err.print(f"skipped: {len(problems) - _SHOWN} more files")


def _rows(
    classifier: "FewShotClassifier", predictions: "list[Prediction]"
) -> list[dict[str, object]]:
    names = [str(label) for label in classifier.classes_.tolist()]
    return [
        {
            "path": p.path,
            "label": p.label,
            "unknown": p.unknown,
            "confidence": p.confidence,
            "distance": p.distance,
            "probabilities": dict(zip(names, p.probabilities.tolist(), strict=True)),
        }
        for p in predictions
    ]


def _csv(classifier: "FewShotClassifier", predictions: "list[Prediction]") -> str:
    """A row for each image: path, label, confidence, distance, and each class's probability."""
    names = [str(label) for label in classifier.classes_.tolist()]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["path", "label", "confidence", "distance", *(f"p({n})" for n in names)])
    for p in predictions:
        numbers = (p.confidence, p.distance, *p.probabilities.tolist())
        writer.writerow([p.path, p.label, *(f"{number:.6g}" for number in numbers)])
    # a file name need not be text; what cannot be written shows as ?
    return text.getvalue().encode("utf-8", "replace").decode()


def _print_rows(predictions: "list[Prediction]") -> None:
    """The answer for each image on a line of its own, however long its path."""
    answers = [
        ("unknown", "-") if p.unknown else (str(p.label), percent(p.confidence))
        for p in predictions
    ]
    longest = max(len(label) for label, _ in answers)
    for p, (label, confidence) in zip(predictions, answers, strict=True):
        out.print(f"{label:<{longest}}  {confidence:>7}  {p.path}", soft_wrap=True)


def _print_summary(classifier: "FewShotClassifier", predictions: "list[Prediction]") -> None:
    """Images and mean confidence of each class, and how many were rejected."""
    table = Table("class", "images", "mean confidence")
    for k, label in enumerate(classifier.classes_.tolist()):
        sure = [p.confidence for p in predictions if not p.unknown and p.nearest == k]
        if not sure and len(classifier.classes_) > _CLASSES:
            continue
        table.add_row(str(label), str(len(sure)), percent(sum(sure) / len(sure)) if sure else "-")
    unknown = sum(p.unknown for p in predictions)
    if unknown:
        table.add_row("unknown", str(unknown), "-")
    out.print(table)


def _print_evaluation(result: "FolderEvaluation") -> None:
    """Accuracy, the classes from worst to best, and the confusion matrix if it fits."""
    table = Table(show_header=False)
    table.add_row("images", str(result.images))
    table.add_row("accuracy", percent(result.accuracy), style="bold")
    table.add_row("calibration error", percent(result.calibration_error))
    out.print(table)
    classes = Table("class", "images", "accuracy", "most often taken for")
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
