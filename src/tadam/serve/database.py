"""The SQLite file of a project: its tables, and transactions that survive a power cut.

Write-ahead logging with `synchronous=FULL`: once `commit` returns, the change is on the disk.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tadam.errors import UserError

#: Goes up when the tables change.
PROJECT_FORMAT = 1
#: Pages of 4 kB that the log may have before it is written back.
_CHECKPOINT = 1000

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE class (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL,
                    deleted INTEGER NOT NULL DEFAULT 0);
CREATE TABLE image (id INTEGER PRIMARY KEY AUTOINCREMENT, digest TEXT NOT NULL UNIQUE,
                    name TEXT NOT NULL, format TEXT NOT NULL, width INTEGER NOT NULL,
                    height INTEGER NOT NULL, class_id INTEGER REFERENCES class(id),
                    deleted INTEGER NOT NULL DEFAULT 0, added REAL NOT NULL,
                    gradients BLOB NOT NULL, mirrored BLOB NOT NULL);
CREATE TABLE embedding (image_id INTEGER NOT NULL, model TEXT NOT NULL, z BLOB NOT NULL,
                        PRIMARY KEY (image_id, model)) WITHOUT ROWID;
CREATE TABLE history (id INTEGER PRIMARY KEY AUTOINCREMENT, description TEXT NOT NULL,
                      changes TEXT NOT NULL, undone INTEGER NOT NULL DEFAULT 0);
CREATE TABLE accuracy (images INTEGER PRIMARY KEY, accuracy REAL NOT NULL);
"""


class Database:
    """A project's tables, shared by threads, one at a time."""

    def __init__(self, path: Path, create: bool = False) -> None:
        self.lock = threading.RLock()
        self._path = path
        try:
            self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            try:
                found = self._prepared(create)
            except BaseException:
                self.close()
                raise
        except sqlite3.DatabaseError as error:
            raise UserError(f"{path} is not a project that can be read ({error})") from None
        if found != str(PROJECT_FORMAT):
            self.close()
            raise UserError(f"{path} is of another version of tadam: install that one, or a newer")

    def _prepared(self, create: bool) -> str | None:
        """The database's format, once it is set up."""
        # Reading a stranger's file must run nothing that is in it.
        self.connection.execute("PRAGMA trusted_schema=OFF")
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.execute("PRAGMA foreign_keys=ON")
        self.connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT}")
        if create:
            with self.transaction():
                for statement in _TABLES.split(";\n"):
                    self.connection.execute(statement)
                self.put("format", str(PROJECT_FORMAT))
        return self.get("format")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All changes in the block, or none; on the disk when the block ends."""
        with self.lock:
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk may have rolled it back already
                    self.connection.execute("ROLLBACK")
                raise

    def get(self, key: str) -> str | None:
        """A fact about the project."""
        with self.lock:
            row = self.connection.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
        return str(row[0]) if row else None

    def put(self, key: str, value: str) -> None:
        """Sets a fact; inside a transaction."""
        self.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def close(self) -> None:
        """Writes the log back and closes the file."""
        with self.lock:
            self.connection.close()
