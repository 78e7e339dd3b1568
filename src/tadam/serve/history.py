"""What was done to a project, in a form that can be undone and done again.

A change says what some fields of a class or photo were and what they are. Nothing is ever deleted
by an action, only marked, so that undoing it is setting fields back.
"""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

#: Actions that can be undone; older ones are forgotten, and their deleted photos with them.
MOST_ACTIONS = 500
#: Tables and the fields of theirs that actions change.
_FIELDS = {"class": ("name", "deleted"), "image": ("class_id", "deleted")}


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


def forget_old(connection: sqlite3.Connection) -> list[str]:
    """Drops the oldest actions and the deleted photos that no action can bring back.

    Returns:
        The digests of those photos, whose files can go.
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
    deleted = connection.execute("SELECT id, digest FROM image WHERE deleted=1").fetchall()
    gone = [(number, digest) for number, digest in deleted if number not in named]
    connection.executemany("DELETE FROM embedding WHERE image_id=?", [(n,) for n, _ in gone])
    connection.executemany("DELETE FROM image WHERE id=?", [(n,) for n, _ in gone])
    return [digest for _, digest in gone]
