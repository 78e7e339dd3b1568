"""A table of text as CSV, for a spreadsheet, and as LaTeX, for a paper (needs booktabs)."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from tadam.system.files import write_text

#: What LaTeX reads as a command, or cannot print.
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "–": "--",
    "→": r"$\to$",
    "∞": r"$\infty$",
    "α": r"$\alpha$",
}


def write_rows(
    folder: Path,
    stem: str,
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
) -> list[Path]:
    """Writes `stem`.csv and `stem`.tex into a folder."""
    lines = [list(row) for row in rows]
    paths = [folder / f"{stem}.csv", folder / f"{stem}.tex"]
    write_text(paths[0], csv_text(columns, lines))
    write_text(paths[1], latex(title, columns, lines))
    return paths


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A header and the rows."""
    with io.StringIO(newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
        return file.getvalue()


def latex(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table environment with its caption; the first column is to the left, the others right."""
    body = [" & ".join(map(escaped, row)) + r" \\" for row in rows]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escaped(title)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}",
            r"\toprule",
            " & ".join(map(escaped, columns)) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def escaped(text: str) -> str:
    """Text as LaTeX prints it."""
    return "".join(_LATEX.get(letter, letter) for letter in text)
