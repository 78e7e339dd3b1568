"""Photos that arrive at a project: stored, looked at, embedded, and only then acknowledged.

They go in parts. A part is on the disk, files first and then rows, before the next one begins, so
whatever a kill interrupts, a photo is there completely or not at all.
"""

import io
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from tadam.classify.embedded import Embedded
from tadam.classify.reading import ImageSource
from tadam.errors import UserError
from tadam.serve.history import FieldChange, next_action, record
from tadam.serve.naming import clean_name, counted, folder_of, photo_name
from tadam.serve.photo_files import Arrival
from tadam.serve.problem import Refused, full_disk
from tadam.serve.project import Project
from tadam.serve.stored_rows import Box, Photo

#: Photos that are embedded and committed together.
AT_ONCE = 32


@dataclass(frozen=True)
class Incoming:
    """A file that somebody sent: its name, which may be a relative path, and how to open it."""

    name: str
    open: Callable[[], AbstractContextManager[BinaryIO]]


@dataclass
class AddedPhotos:
    """What became of files that were sent.

    Attributes:
        added: Ids of new photos.
        duplicates: Names of files that were there already, and the ids of those.
        problems: Names of files that cannot be used, and a sentence about each.
    """

    added: list[int] = field(default_factory=list)
    duplicates: list[tuple[str, int]] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    action: int | None = None


def from_bytes(name: str, content: bytes) -> Incoming:
    """A file that is in memory."""
    return Incoming(name, lambda: io.BytesIO(content))


def add_photos(
    project: Project,
    files: Iterable[Incoming],
    embed: Callable[[str, Sequence[ImageSource]], Embedded],
    pool: ThreadPoolExecutor,
    class_id: int | None = None,
    by_folder: bool = False,
    progress: Callable[[int], None] = lambda _: None,
    group: str = "",
) -> AddedPhotos:
    """Adds photos to a project, as one action.

    Args:
        project: Which one.
        files: The photos.
        embed: What the model of a name makes of photos.
        pool: Threads that look at them.
        class_id: Their class; None for no label.
        by_folder: Whether the outermost folder in a file's name is its class.
        progress: Called with the number of files that are done.
        group: Several calls in a row with the same text are undone together.
    """
    result, done = AddedPhotos(), 0
    if class_id is not None:
        project.box(class_id)
    try:
        for part in _parts(files):
            stored: dict[str, tuple[Arrival, str | None]] = {}
            again: list[tuple[str, Arrival]] = []
            looked = pool.map(lambda file: _stored(project, file), part)
            for file, found in zip(part, looked, strict=True):
                if isinstance(found, UserError):
                    result.problems.append((file.name, str(found)))
                elif isinstance(found, int):
                    result.duplicates.append((file.name, found))
                elif found.digest in stored:
                    again.append((file.name, stored[found.digest][0]))
                else:
                    stored[found.digest] = (found, folder_of(file.name))
            rows = list(stored.values())
            _embed_and_add(project, rows, embed, class_id, by_folder, group, result)
            for name, first in again:
                if number := project.by_digest.get(first.digest):
                    result.duplicates.append((name, number))
                else:
                    result.problems.append((name, f"{first.name} is the same: it cannot be used"))
            done += len(part)
            progress(done)
    except Exception as error:
        if result.added and full_disk(error):
            raise Refused(
                507,
                f"the disk is full, only {counted(len(result.added))} of this request fitted: make "
                "room, then send the others again",
            ) from error
        raise
    finally:
        if result.added:  # also by parts before one that failed
            project.changed()
    return result


def _parts(files: Iterable[Incoming]) -> Iterator[list[Incoming]]:
    remaining = iter(files)
    while part := list(islice(remaining, AT_ONCE)):
        yield part


def _stored(project: Project, file: Incoming) -> Arrival | int | UserError:
    """The stored photo; the id of one that is there already; or why it cannot be used."""
    try:
        with file.open() as content:
            path, digest = project.files.receive(content)
        known = project.photos.get(project.by_digest.get(digest, -1))
        if known and not known.deleted:
            path.unlink()
            return known.id
        return project.files.examine(path, digest, photo_name(file.name))
    except UserError as error:
        return error


def _embed_and_add(
    project: Project,
    stored: list[tuple[Arrival, str | None]],
    embed: Callable[[str, Sequence[ImageSource]], Embedded],
    class_id: int | None,
    by_folder: bool,
    group: str,
    result: AddedPhotos,
) -> None:
    paths = [project.files.path(a.digest) for a, _ in stored]
    while stored:
        model = project.model
        found = embed(model, paths)
        with project.database.lock:
            if project.model == model:  # or it was changed meanwhile
                _add(project, stored, found, model, class_id, by_folder, group, result)
                break


def _add(
    project: Project,
    stored: list[tuple[Arrival, str | None]],
    found: Embedded,
    model: str,
    class_id: int | None,
    by_folder: bool,
    group: str,
    result: AddedPhotos,
) -> None:
    """Adds what a model has seen, in one transaction; the caller holds the database's lock."""
    for row, sentence in found.problems.items():
        arrival = stored[row][0]
        problem = sentence.replace(str(project.files.path(arrival.digest)), arrival.name)
        result.problems.append((arrival.name, problem))
    changes: list[FieldChange] = []
    photos: list[Photo] = []
    boxes: list[Box] = []
    with project.database.transaction() as connection:
        for row, z in zip(found.rows, found.z, strict=True):
            arrival, folder = stored[row]
            twin = project.photos.get(project.by_digest.get(arrival.digest, -1))
            if twin and not twin.deleted:  # from another request at the same time
                result.duplicates.append((arrival.name, twin.id))
                continue
            label = class_id
            if by_folder:
                label = _class_of(project, connection, folder, boxes, changes)
            photo = _insert(project, connection, arrival, label, changes)
            photos.append(photo)
            connection.execute(
                "INSERT OR REPLACE INTO embedding VALUES (?, ?, ?)",
                (photo.id, model, z.tobytes()),
            )
        if changes:
            _record(project, connection, changes, group, result)
            project.touch()
    for box in boxes:
        project.boxes[box.id] = box
    for photo in photos:
        project.photos[photo.id] = photo
        project.by_digest[photo.digest] = photo.id
    result.added += [photo.id for photo in photos]


def _record(
    project: Project,
    connection: sqlite3.Connection,
    changes: list[FieldChange],
    group: str,
    result: AddedPhotos,
) -> None:
    """Notes what arrived, together with what came just before if that belongs to it."""
    last = next_action(connection, False)
    belongs = {result.action} if not group else {result.action, project.groups.get(group)}
    earlier = last[2] if last and last[0] in belongs else []
    count = sum(change.table == "image" for change in (*earlier, *changes))
    extends = last[0] if last and earlier else None
    result.action = record(connection, f"Add {counted(count)}", changes, extends)
    if group:
        project.groups = {group: result.action}


def _class_of(
    project: Project,
    connection: sqlite3.Connection,
    folder: str | None,
    new: list[Box],
    changes: list[FieldChange],
) -> int | None:
    """The class that a folder names, made if there is none."""
    if folder is None:
        return None
    name = clean_name(folder)
    for box in (*project.live_boxes(), *new):
        if box.name == name:
            return box.id
    cursor = connection.execute("INSERT INTO class (name, deleted) VALUES (?, 0)", (name,))
    made = Box(int(cursor.lastrowid or 0), name, False)
    new.append(made)
    changes.append(FieldChange("class", made.id, {"deleted": 1}, {"deleted": 0}))
    return made.id


def _insert(
    project: Project,
    connection: sqlite3.Connection,
    a: Arrival,
    label: int | None,
    changes: list[FieldChange],
) -> Photo:
    """The row of a photo, which may have been deleted earlier."""
    old = project.photos.get(project.by_digest.get(a.digest, -1))
    if old is not None:
        connection.execute(
            "UPDATE image SET deleted=0, class_id=?, name=? WHERE id=?", (label, a.name, old.id)
        )
        before = {"class_id": old.class_id, "deleted": 1}
        changes.append(FieldChange("image", old.id, before, {"class_id": label, "deleted": 0}))
        return Photo(old.id, a.digest, a.name, a.format, a.width, a.height, label, False, old.added)
    now = time.time()
    cursor = connection.execute(
        "INSERT INTO image (digest, name, format, width, height, class_id, deleted, added, "
        "gradients, mirrored) VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?, ?)",
        (a.digest, a.name, a.format, a.width, a.height, label, now, a.gradients, a.mirrored),
    )
    number = int(cursor.lastrowid or 0)
    changes.append(FieldChange("image", number, {"deleted": 1}, {"deleted": 0}))
    return Photo(number, a.digest, a.name, a.format, a.width, a.height, label, False, now)


def stored_embeddings(project: Project, model: str) -> tuple[list[int], npt.NDArray[np.float32]]:
    """Ids of all photos, deleted ones too, that a model has embedded, and the rows, (n, D).

    A damaged row is left out, as if the photo had not been embedded.
    """
    with project.database.lock:
        rows = project.database.connection.execute(
            "SELECT image_id, z FROM embedding WHERE model=? AND typeof(z)='blob' "
            "AND length(z) % 4 = 0 AND length(z) > 0 ORDER BY image_id",
            (model,),
        ).fetchall()
    if not rows:
        return [], np.zeros((0, 0), np.float32)
    usual, _ = Counter(len(row[1]) for row in rows).most_common(1)[0]
    rows = [row for row in rows if len(row[1]) == usual]
    z = np.stack([np.frombuffer(row[1], np.float32) for row in rows])
    whole = np.flatnonzero(np.isfinite(z).all(axis=1))
    return [rows[i][0] for i in whole], z[whole]
