"""Predictions as lines to read, as JSON, and as the files that `tadam predict` writes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from tadam.reports.terminal import out, percent
from tadam.system.files import write_text
from tadam.system.untrusted_text import printable

if TYPE_CHECKING:
    from tadam.classify.classifier import FewShotClassifier
    from tadam.classify.predictions import Prediction

#: Up to this many images get a row each.
_ROWS = 20
#: With more classes than this, those without an image are left out of the summary.
_CLASSES = 12


def _class_names(classifier: "FewShotClassifier") -> list[str]:
    """The classes as text, in the order of the probabilities."""
    return [str(label) for label in classifier.classes_.tolist()]


def json_rows(
    classifier: "FewShotClassifier", predictions: "Sequence[Prediction]", top: int | None
) -> list[dict[str, object]]:
    """An object for each image; with `top`, only the most probable classes, in their order."""
    names = _class_names(classifier)
    return [
        {
            "path": p.path,
            "label": p.label,
            "unknown": p.unknown,
            "confidence": p.confidence,
            "strangeness": p.strangeness,
            "probabilities": {
                names[k]: float(p.probabilities[k])
                for k in (range(len(names)) if top is None else p.most_probable(top))
            },
        }
        for p in predictions
    ]


def write_csv(
    file: Path,
    classifier: "FewShotClassifier",
    predictions: "Sequence[Prediction]",
    top: int | None,
) -> None:
    """Writes a row for each image; with `top`, only the most probable classes."""
    from tadam.classify.prediction_rows import csv_text

    write_text(file, csv_text(_class_names(classifier), predictions, top))


def print_predictions(
    classifier: "FewShotClassifier",
    predictions: "Sequence[Prediction]",
    top: int | None,
    written: Sequence[Path],
) -> None:
    """A line for each image, or a summary if there are many, and the files that were written."""
    names = [printable(name) for name in _class_names(classifier)]
    if top is None and len(predictions) > _ROWS:
        _print_summary(names, predictions)
    else:
        _print_rows(names, predictions, top or 1)
    for file in written:
        out.print(f"written: {printable(file)}", soft_wrap=True)


def _print_rows(names: Sequence[str], predictions: "Sequence[Prediction]", top: int) -> None:
    """The answers for each image on a line of its own, however long its path."""
    rows = []
    for p in predictions:
        likely = [(names[k], percent(float(p.probabilities[k]))) for k in p.most_probable(top)]
        rows.append([("unknown", "-"), *likely[: top - 1]] if p.unknown else likely)
    longest = max(len(label) for row in rows for label, _ in row)
    for p, row in zip(predictions, rows, strict=True):
        cells = "  ".join(f"{label:<{longest}}  {share:>7}" for label, share in row)
        out.print(f"{cells}  {printable(p.path)}", soft_wrap=True)


def _print_summary(names: Sequence[str], predictions: "Sequence[Prediction]") -> None:
    """Images and mean confidence of each class, and how many were rejected."""
    table = Table("class", "images", "mean confidence")
    for k, name in enumerate(names):
        sure = [p.confidence for p in predictions if not p.unknown and p.nearest == k]
        if not sure and len(names) > _CLASSES:
            continue
        table.add_row(name, str(len(sure)), percent(sum(sure) / len(sure)) if sure else "-")
    unknown = sum(p.unknown for p in predictions)
    if unknown:
        table.add_row("unknown", str(unknown), "-")
    out.print(table)
