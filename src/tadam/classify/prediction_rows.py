"""Predictions as rows of a table: the columns, and the cells of each image."""

import csv
import io
from collections.abc import Sequence

from tadam.classify.predictions import Prediction
from tadam.system.untrusted_text import spreadsheet_cell


def table_columns(names: Sequence[str], top: int | None) -> list[str]:
    """The header: a column for each class or, with `top`, two for each place."""
    columns = [f"p({name})" for name in names]
    if top is not None:
        places = range(1, min(top, len(names)) + 1)
        columns = [column for place in places for column in (f"class{place}", f"p{place}")]
    return ["path", "label", "confidence", "strangeness", *columns]


def table_cells(p: Prediction, names: Sequence[str], top: int | None) -> list[object]:
    """A row: path, label, confidence, strangeness and probabilities, in the order of the header."""
    cells: list[object] = [p.path, p.label, p.confidence, p.strangeness]
    for k in range(len(names)) if top is None else p.most_probable(top):
        cells += [] if top is None else [names[k]]
        cells.append(float(p.probabilities[k]))
    return cells


def csv_text(names: Sequence[str], predictions: Sequence[Prediction], top: int | None) -> str:
    """The whole table as CSV, numbers to six digits; no cell is one that a spreadsheet runs."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table_columns(names, top))
    for p in predictions:
        path, label, *others = table_cells(p, names, top)
        # a label may be a number of its own; only what we computed is rounded
        numbers = [
            f"{cell:.6g}" if isinstance(cell, float) else spreadsheet_cell(cell) for cell in others
        ]
        writer.writerow([spreadsheet_cell(path), spreadsheet_cell(label), *numbers])
    # a file name need not be valid text; undecodable bytes show as ?
    return text.getvalue().encode("utf-8", "replace").decode()
