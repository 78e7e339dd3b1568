"""A classifier's evaluation on labelled photos, as lines to read and as a CSV file."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from tadam.reports.terminal import out, percent
from tadam.system.files import write_text
from tadam.system.untrusted_text import printable, spreadsheet_cell

if TYPE_CHECKING:
    from tadam.evaluation.folders import FolderEvaluation, Rejection

#: A confusion matrix of more classes than this does not fit a terminal.
_CLASSES = 12
#: Mistakes that are listed on the terminal.
_MISTAKES = 15


def write_evaluation_csv(path: Path, result: "FolderEvaluation") -> None:
    """A row for each image, the mistakes first."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["path", "label", "answer", "right", "confidence", "strangeness", "rejected"])
    for photo in result.photos:
        p = photo.prediction
        right, rejected = ("yes" if value else "no" for value in (photo.right, photo.rejected))
        strangeness = "" if p.strangeness is None else f"{p.strangeness:.6g}"
        numbers = (f"{p.confidence:.6g}", strangeness)
        names = [spreadsheet_cell(name) for name in (photo.path, photo.label, photo.answer)]
        writer.writerow([*names, right, *numbers, rejected])
    # a file name need not be valid text; undecodable bytes show as ?
    write_text(path, text.getvalue().encode("utf-8", "replace").decode())


def print_evaluated(result: "FolderEvaluation") -> None:
    """Accuracy, the classes from worst to best, the mistakes, the confusion matrix if it fits."""
    table = Table(show_header=False)
    table.add_row("images", str(result.images))
    table.add_row("accuracy", percent(result.accuracy), style="bold")
    table.add_row("calibration error", percent(result.calibration_error))
    out.print(table)
    if result.rejection:
        _print_rejection(result.rejection)
    classes = Table("class", "images", "accuracy", "most often mistaken for")
    for name, share in sorted(result.per_class.items(), key=lambda item: item[1]):
        own = result.class_names.index(name)
        row = result.confusion[own]
        wrong = [0 if k == own else count for k, count in enumerate(row)]
        taken = result.class_names[wrong.index(max(wrong))] if max(wrong) else "-"
        classes.add_row(printable(name), str(sum(row)), percent(share), printable(taken))
    out.print(classes)
    _print_mistakes(result)
    if len(result.class_names) > _CLASSES:
        out.print(f"--json has the {len(result.class_names)} x {len(result.class_names)} confusion")
        return
    # Columns have numbers: names would be cut short, and `shoes` and `shorts` look alike then.
    numbers = [str(number) for number in range(1, len(result.class_names) + 1)]
    matrix = Table("true \\ answer", *numbers)
    for number, name, row in zip(numbers, result.class_names, result.confusion, strict=True):
        matrix.add_row(f"{number} {printable(name)}", *map(str, row))
    out.print(matrix)


def _print_mistakes(result: "FolderEvaluation") -> None:
    mistakes = result.mistakes
    if not mistakes:
        return
    out.print("mistakes, the most confident first:")
    for photo in mistakes[:_MISTAKES]:
        sure = percent(photo.prediction.confidence)
        line = f"{photo.path}: {photo.label} taken for {photo.answer}, {sure}"
        out.print(f"  {printable(line)}", soft_wrap=True)
    if len(mistakes) > _MISTAKES:
        more = len(mistakes) - _MISTAKES
        out.print(f"  ... and {more} more; --csv, --report and --json have all of them")


def _print_rejection(found: "Rejection") -> None:
    right = "" if found.right_of_kept is None else f", {percent(found.right_of_kept)} of them right"
    out.print(f"--reject keeps {percent(found.kept)} of the {found.known} photos of a class{right}")
    if found.caught is None or found.auroc is None:
        out.print("for photos of no class, put some into a folder called unknown", soft_wrap=True)
        return
    out.print(
        f"--reject catches {percent(found.caught)} of the {found.unknown} photos of no class; one "
        f"of them looks stranger than one of a class in {percent(found.auroc)} of pairs (AUROC)",
        soft_wrap=True,
    )
