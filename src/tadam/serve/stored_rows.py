"""What a project's database says, checked before it is used: the folder may be a stranger's.

A digest is part of a path and a format is part of a name in a zip, so neither may be just any text.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tadam.serve.naming import clean_name, photo_name
from tadam.serve.problem import Refused
from tadam.system.untrusted_json import BadJson, FieldCheck, fields, maybe, number, text, whole


@dataclass
class Photo:
    """A photo of a project; `class_id` is None without a label."""

    id: int
    digest: str
    name: str
    format: str
    width: int
    height: int
    class_id: int | None
    deleted: bool
    added: float


@dataclass
class Box:
    """A class of a project."""

    id: int
    name: str
    deleted: bool


#: Bytes of each of a photo's two fingerprints.
_FINGERPRINT = 16


def _matching(pattern: str, meaning: str) -> FieldCheck:
    def check(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise BadJson(f"it is not {meaning}")
        return value

    return check


def _same(clean: Callable[[str], str]) -> FieldCheck:
    """A name that is as we would have stored it."""

    def check(value: Any) -> str:
        try:
            kept = clean(text(value)) == value
        except Refused:
            kept = False
        if not kept:
            raise BadJson("it is not a name")
        return str(value)

    return check


def _fingerprint(value: Any) -> bytes:
    if not isinstance(value, bytes) or len(value) != _FINGERPRINT:
        raise BadJson("it is not a fingerprint")
    return value


_ID = whole(1, 2**63 - 1)
CLASS: dict[str, FieldCheck] = {"id": _ID, "name": _same(clean_name), "deleted": whole(0, 1)}
PHOTO: dict[str, FieldCheck] = {
    "id": _ID,
    "digest": _matching(r"[0-9a-f]{64}", "a digest"),
    "name": _same(photo_name),
    "format": _matching(r"[A-Z0-9]{1,16}", "a format"),
    "width": whole(1),
    "height": whole(1),
    "class_id": maybe(_ID),
    "deleted": whole(0, 1),
    "added": number(),
}
_FINGERPRINTS: dict[str, FieldCheck] = {"gradients": _fingerprint, "mirrored": _fingerprint}


def stored_boxes(connection: sqlite3.Connection) -> dict[int, Box]:
    """Classes by id; raises `BadJson` if one is damaged."""
    rows = _checked(connection, "class", CLASS)
    return {row["id"]: Box(row["id"], row["name"], bool(row["deleted"])) for row in rows}


def stored_photos(connection: sqlite3.Connection) -> dict[int, Photo]:
    """Photos by id; raises `BadJson` if one is damaged."""
    rows = _checked(connection, "image", PHOTO | _FINGERPRINTS)
    return {row["id"]: Photo(*(row[name] for name in PHOTO)) for row in rows}


def _checked(
    connection: sqlite3.Connection, table: str, checks: dict[str, FieldCheck]
) -> Iterator[dict[str, Any]]:
    for row in connection.execute(f"SELECT {', '.join(checks)} FROM {table}"):
        yield fields(dict(zip(checks, row, strict=True)), checks)
