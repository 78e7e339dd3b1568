"""A project: a folder with photos, named by their content, and a database of what is known of them.

What the database says is also kept in memory, which answers questions; a change goes to the disk
first. The methods may be called from any thread.
"""

import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tadam.errors import UserError
from tadam.serve.database import Database
from tadam.serve.history import (
    FieldChange,
    apply_change,
    check_history,
    forget_old,
    next_action,
    record,
)
from tadam.serve.naming import clean_name, counted
from tadam.serve.photo_files import StoredPhotos
from tadam.serve.problem import Refused
from tadam.serve.stored_rows import Box, Photo, stored_boxes, stored_photos
from tadam.system.files import make_folder
from tadam.system.folder_lock import locked
from tadam.system.untrusted_json import BadJson

DATABASE, CLASSIFIER = "project.sqlite", "classifier.tadam"


class Project:
    """An open project, which no other process can open at the same time.

    Args:
        folder: Where it is.
        create: Name and model of a new one; None to open it.

    Attributes:
        photos: By id, those marked as deleted too.
        boxes: Classes by id, likewise.
        revision: Goes up with every change, and whenever the classifier has learnt it.
        edits: How many changes there were.
        on_change: Called after every change.
        groups: The last action that may still grow, by the name its senders gave it.
    """

    def __init__(self, folder: Path, create: tuple[str, str] | None = None) -> None:
        self.folder, self.files = folder, StoredPhotos(folder)
        self.on_change: Callable[[], None] = lambda: None
        self.groups: dict[str, int] = {}
        self._held = ExitStack()
        if create is None and not (folder / DATABASE).is_file():
            raise UserError(f"{folder} is not a project: it has no {DATABASE}")
        self._held.enter_context(locked(folder / ".lock", folder, keep=True))
        try:
            make_folder(folder)
            self.files.make()
            self.database = Database(folder / DATABASE, create is not None)
            self._held.callback(self.database.close)
            if create is not None:
                with self.database.transaction():
                    self.database.put("name", clean_name(create[0]))
                    self.database.put("model", create[1])
                    self.touch()
            try:
                self._load()
            except (BadJson, sqlite3.DatabaseError) as error:
                raise UserError(
                    f"{folder / DATABASE} is damaged ({error}): put a copy from before in its place"
                ) from None
        except BaseException:
            self._held.close()
            raise

    def _load(self) -> None:
        with self.database.transaction() as connection:
            self.boxes, self.photos = stored_boxes(connection), stored_photos(connection)
            check_history(connection, {"class": self.boxes.keys(), "image": self.photos.keys()})
            for number in forget_old(connection):
                del self.photos[number]
        self.by_digest = {photo.digest: photo.id for photo in self.photos.values()}
        self.files.sweep(self.by_digest)
        # Revisions are not stored; the clock keeps them growing from one server to the next.
        self.revision, self.edits = int(time.time() * 1000), 0

    def close(self) -> None:
        """Closes the database and lets others open the project."""
        self._held.close()

    @property
    def name(self) -> str:
        return self.database.get("name") or self.folder.name

    @property
    def model(self) -> str:
        return self.database.get("model") or ""

    @property
    def modified(self) -> float:
        try:
            return float(self.database.get("modified") or 0)
        except ValueError:  # damaged, and of no consequence
            return 0.0

    @property
    def classifier_file(self) -> Path | None:
        """The `.tadam` file of a project that only predicts."""
        path = self.folder / CLASSIFIER
        return path if path.exists() else None

    def live_photos(self) -> list[Photo]:
        """Those that are not deleted, by id."""
        with self.database.lock:
            return [p for _, p in sorted(self.photos.items()) if not p.deleted]

    def live_boxes(self) -> list[Box]:
        """Classes that are not deleted, in the order in which they were made."""
        with self.database.lock:
            return [box for _, box in sorted(self.boxes.items()) if not box.deleted]

    def box(self, number: int) -> Box:
        """A class by its id."""
        found = self.boxes.get(number)
        if found is None or found.deleted:
            raise Refused(404, f"there is no class {number} here: it may have been deleted")
        return found

    def photo(self, number: int) -> Photo:
        """A photo by its id."""
        found = self.photos.get(number)
        if found is None or found.deleted:
            raise Refused(404, f"there is no photo {number} here: it may have been deleted")
        return found

    def set_fact(self, key: str, value: str) -> None:
        """Changes the name or the model, which is not an action to undo."""
        with self.database.transaction():
            self.database.put(key, value)
            self.touch()
        self.changed()

    def touch(self) -> None:
        """Notes the time of a change; inside a transaction."""
        self.database.put("modified", str(time.time()))

    def changed(self) -> None:
        """Tells whoever listens that something is new."""
        self.edits += 1
        self.revision += 1
        self.on_change()

    def act(self, description: str, changes: Sequence[FieldChange]) -> None:
        """Makes changes that can be undone."""
        if not changes:
            return
        with self.database.transaction() as connection:
            for change in changes:
                apply_change(connection, change, backwards=False)
            record(connection, description, changes)
            self.touch()
        self._mirror(changes, backwards=False)
        self.changed()

    def add_class(self, name: str) -> Box:
        """Makes a class, or brings back none: names of classes are all different."""
        with self.database.lock:
            name = self._new_name(name)
            with self.database.transaction() as connection:
                cursor = connection.execute(
                    "INSERT INTO class (name, deleted) VALUES (?, 0)", (name,)
                )
                number = int(cursor.lastrowid or 0)
                born = FieldChange("class", number, {"deleted": 1}, {"deleted": 0})
                record(connection, f"Add class {name}", [born])
                self.touch()
            self.boxes[number] = Box(number, name, False)
        self.changed()
        return self.boxes[number]

    def _new_name(self, name: str, own: int | None = None) -> str:
        name = clean_name(name)
        if any(box.name == name and box.id != own for box in self.live_boxes()):
            raise Refused(409, f"there is a class {name!r} already: choose another name")
        return name

    def rename_class(self, number: int, name: str) -> Box:
        """Gives a class another name."""
        with self.database.lock:
            box = self.box(number)
            name = self._new_name(name, number)
            change = FieldChange("class", number, {"name": box.name}, {"name": name})
            self.act(f"Rename {box.name} to {name}", [change] if name != box.name else [])
        return box

    def delete_class(self, number: int, with_photos: bool) -> None:
        """Deletes a class; its photos go too, or lose their label."""
        with self.database.lock:
            box = self.box(number)
            changes = self._each(
                (p.id for p in self.live_photos() if p.class_id == number),
                {"deleted": 1} if with_photos else {"class_id": None},
            )
            changes.append(FieldChange("class", number, {"deleted": 0}, {"deleted": 1}))
            self.act(f"Delete class {box.name}", changes)

    def merge_class(self, number: int, into: int) -> None:
        """Moves all photos of a class to another and deletes it."""
        with self.database.lock:
            box, other = self.box(number), self.box(into)
            if box is other:
                raise Refused(422, "a class cannot be merged with itself: choose another one")
            changes = self._each(
                (p.id for p in self.live_photos() if p.class_id == number), {"class_id": into}
            )
            changes.append(FieldChange("class", number, {"deleted": 0}, {"deleted": 1}))
            self.act(f"Merge {box.name} into {other.name}", changes)

    def assign(self, numbers: Iterable[int], class_id: int | None) -> None:
        """Gives photos a label, or takes it away."""
        with self.database.lock:
            target = None if class_id is None else self.box(class_id)
            changes = self._each(numbers, {"class_id": class_id})
            count = counted(len(changes))
            self.act(f"Assign {count} to {target.name}" if target else f"Unlabel {count}", changes)

    def assign_each(self, labels: dict[int, int]) -> None:
        """Gives each photo a label of its own: its guess, which was accepted."""
        with self.database.lock:
            changes = [c for i, k in labels.items() for c in self._each([i], {"class_id": k})]
            self.act(f"Accept the guess for {counted(len(changes))}", changes)

    def delete_photos(self, numbers: Iterable[int]) -> None:
        """Marks photos as deleted."""
        with self.database.lock:
            changes = self._each(numbers, {"deleted": 1})
            self.act(f"Delete {counted(len(changes))}", changes)

    def _each(self, numbers: Iterable[int], after: dict[str, Any]) -> list[FieldChange]:
        changes = []
        for number in dict.fromkeys(numbers):
            photo = self.photo(number)
            before = {name: getattr(photo, name) for name in after}
            if before != after:  # False is 0 here and in SQLite
                changes.append(FieldChange("image", number, before, after))
        return changes

    def step(self, undone: bool) -> None:
        """Undoes the last action, or does the last undone one again."""
        with self.database.lock:
            found = next_action(self.database.connection, undone)
            if found is None:
                raise Refused(409, f"there is nothing to {'redo' if undone else 'undo'}")
            number, _, changes = found
            with self.database.transaction() as connection:
                for change in changes if undone else reversed(changes):
                    apply_change(connection, change, backwards=not undone)
                connection.execute(
                    "UPDATE history SET undone=? WHERE id=?", (int(not undone), number)
                )
                self.touch()
            self._mirror(changes if undone else changes[::-1], backwards=not undone)
        self.changed()

    def actions(self) -> tuple[str | None, str | None]:
        """What can be undone and redone, in words."""
        with self.database.lock:
            undo = next_action(self.database.connection, False)
            redo = next_action(self.database.connection, True)
        return undo and undo[1], redo and redo[1]

    def _mirror(self, changes: Iterable[FieldChange], backwards: bool) -> None:
        for change in changes:
            row: Any = (self.boxes if change.table == "class" else self.photos)[change.id]
            for name, value in (change.before if backwards else change.after).items():
                setattr(row, name, bool(value) if name == "deleted" else value)
