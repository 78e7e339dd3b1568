"""A list of images and their labels, as CSV with a header or as JSON lines."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tadam.errors import UserError

#: Endings of the names of such lists.
CSV_ENDINGS, JSON_ENDINGS = frozenset({".csv", ".tsv"}), frozenset({".jsonl", ".ndjson"})
MAX_LIST_BYTES = 256 * 2**20
#: What the two columns may be called.
_PATHS = ("path", "file", "filename", "file_name", "image")
_LABELS = ("label", "class", "category")


def is_label_list(path: Path) -> bool:
    """Judges by the name alone."""
    return path.suffix.lower() in CSV_ENDINGS | JSON_ENDINGS


def listed_files(path: Path) -> list[tuple[Path, str]]:
    """Image files and their labels, in the list's order; relative paths start at the list.

    A file that is listed twice with one label counts once, with two labels it is an error.
    """
    found: dict[Path, str] = {}
    rows = _json_rows if path.suffix.lower() in JSON_ENDINGS else _csv_rows
    for place, name, label in rows(path, _text(path)):
        if not name or not label:
            missing = "path" if not name else "label"
            raise UserError(f"{place} has no {missing}: give each image a path and a label")
        file = path.parent / name
        if found.setdefault(file, label) != label:
            raise UserError(
                f"{place} gives {name} the label {label!r}, but it had {found[file]!r} before: "
                "keep one of the two"
            )
    if not found:
        raise UserError(f"{path} lists no images: give it a line for each")
    if not any(file.exists() for file in found):
        raise UserError(
            f"none of the {len(found):,} files that {path} lists is there, such as "
            f"{next(iter(found))}: write paths relative to the list, or absolute ones"
        )
    return list(found.items())


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_LIST_BYTES:
            raise UserError(f"{path} is larger than {MAX_LIST_BYTES // 2**20} MB: split it")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text: save it as UTF-8") from None
    except OSError as error:
        raise UserError(f"{path} cannot be opened: {error.strerror}") from None


def _csv_rows(path: Path, text: str) -> Iterator[tuple[str, str, str]]:
    """Place in the file, path and label of each row that is not empty."""
    head = text.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        columns = [cell.strip().lower() for cell in next(reader, [])]
        own, given = (_column(path, columns, names) for names in (_PATHS, _LABELS))
        for row in reader:
            if any(row):
                cells = [*row, *[""] * len(columns)]
                place = f"{path}, line {reader.line_num},"
                yield place, cells[own].strip(), cells[given].strip()
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}, is not CSV: {error}") from None


def _column(path: Path, columns: list[str], names: tuple[str, ...]) -> int:
    for name in names:
        if name in columns:
            return columns.index(name)
    raise UserError(
        f"{path} has no column '{names[0]}': name the columns in its first line, as in path,label"
    )


def _json_rows(path: Path, text: str) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        place = f"{path}, line {number},"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise UserError(f"{place} is not JSON: write an object on each line") from None
        if not isinstance(row, dict):
            raise UserError(f'{place} is no object: write {{"path": ..., "label": ...}}')
        yield place, _value(row, _PATHS), _value(row, _LABELS)


def _value(row: dict[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        value = row.get(name)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value).strip()
    return ""
