"""What was done to a project, in a form that can be undone and done again.

A change says what some fields of a class or photo were and what they are. Nothing is ever deleted
by an action, only marked, so that undoing it is setting fields back.
"""

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from tadam.serve.stored_rows import CLASS, PHOTO
from tadam.system.untrusted_json import BadJson, fields, parse_json

#: Actions that can be undone; older ones are forgotten, and their deleted photos with them.
MOST_ACTIONS = 500


def _mark(value: Any) -> bool:
    """0 and 1 too, as older rows have them."""
    if value not in (False, True):
        raise BadJson("a mark is neither true nor false")
    return bool(value)


#: Tables, and the fields of theirs that actions change.
_FIELDS = {
    "class": {"name": CLASS["name"], "deleted": _mark},
    "image": {"class_id": PHOTO["class_id"], "deleted": _mark},
}


class FieldChange(NamedTuple):
    """Fields of one row before and after an action."""

    table: str
    id: int
    before: dict[str, Any]
    after: dict[str, Any]


def apply_change(connection: sqlite3.Connection, change: FieldChange, backwards: bool) -> None:
    """Writes the fields of one row."""
    fields = change.before if backwards else change.after
    for name, value in fields.items():
        if name not in _FIELDS[change.table]:
            raise ValueError(f"no action changes {name}")
        connection.execute(
            f"UPDATE {change.table} SET {name}=? WHERE id=?",  # names are from the table above
            (value, change.id),
        )


def record(
    connection: sqlite3.Connection,
    description: str,
    changes: Sequence[FieldChange],
    extends: int | None = None,
) -> int:
    """Adds an action, or changes to the one that `extends` names, and returns its id.

    What had been undone cannot be done again after that.
    """
    connection.execute("DELETE FROM history WHERE undone=1")
    if extends is not None:
        row = connection.execute("SELECT changes FROM history WHERE id=?", (extends,)).fetchone()
        if row:
            text = json.dumps([*json.loads(row[0]), *changes])
            connection.execute(
                "UPDATE history SET changes=?, description=? WHERE id=?",
                (text, description, extends),
            )
            return extends
    cursor = connection.execute(
        "INSERT INTO history (description, changes) VALUES (?, ?)",
        (description, json.dumps(changes)),
    )
    return int(cursor.lastrowid or 0)


def next_action(
    connection: sqlite3.Connection, undone: bool
) -> tuple[int, str, list[FieldChange]] | None:
    """The action to do again if `undone`, else the one to undo: id, description, changes."""
    order = "ASC" if undone else "DESC"
    row = connection.execute(
        f"SELECT id, description, changes FROM history WHERE undone=? ORDER BY id {order} LIMIT 1",
        (int(undone),),
    ).fetchone()
    return row and (int(row[0]), str(row[1]), [FieldChange(*c) for c in json.loads(row[2])])


def check_history(connection: sqlite3.Connection, known: Mapping[str, Collection[int]]) -> None:
    """Raises `BadJson` unless each action changes fields of ours in rows that there are.

    Args:
        connection: The project's.
        known: Table -> the ids in it.
    """
    for (text,) in connection.execute("SELECT changes FROM history"):
        changes = parse_json(text) if isinstance(text, str) else None
        if not isinstance(changes, list):
            raise BadJson("an action is not a list of changes")
        for change in changes:
            _check_change(change, known)


def _check_change(change: Any, known: Mapping[str, Collection[int]]) -> None:
    if not isinstance(change, list) or len(change) != 4:
        raise BadJson("an action has a change that is none")
    table, number, *sides = change
    if not isinstance(table, str) or table not in _FIELDS:
        raise BadJson("an action changes a table that there is not")
    if not isinstance(number, int) or number not in known[table]:
        raise BadJson(f"an action changes a row of {table} that there is not")
    for side in sides:
        if not isinstance(side, dict) or not side.keys() <= _FIELDS[table].keys():
            raise BadJson("an action changes a field that no action changes")
        fields(side, {name: _FIELDS[table][name] for name in side})
        label = side.get("class_id")
        if label is not None and label not in known["class"]:
            raise BadJson("an action names a class that there is not")


def forget_old(connection: sqlite3.Connection) -> list[int]:
    """Drops the oldest actions and the deleted photos that no action can bring back.

    Returns:
        The ids of those photos, whose files can go.
    """
    connection.execute(
        "DELETE FROM history WHERE id <= (SELECT MAX(id) FROM history) - ?", (MOST_ACTIONS,)
    )
    named = {
        change[1]
        for (text,) in connection.execute("SELECT changes FROM history")
        for change in json.loads(text)
        if change[0] == "image"
    }
    deleted = connection.execute("SELECT id FROM image WHERE deleted=1").fetchall()
    gone = [number for (number,) in deleted if number not in named]
    connection.executemany("DELETE FROM embedding WHERE image_id=?", [(n,) for n in gone])
    connection.executemany("DELETE FROM image WHERE id=?", [(n,) for n in gone])
    return gone
