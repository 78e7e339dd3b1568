"""Embeddings of photos that were seen before, kept in the user's cache folder.

One SQLite file, which processes may share. What is kept is only ever a shortcut: a file that is
locked, full or damaged costs time, never an answer. An entry belongs to the content of a photo and
to the network that embedded it, so photos can be moved, renamed and copied.
"""

import contextlib
import hashlib
import os
import sqlite3
import stat
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tadam.data.decode_memory import MAX_BYTES
from tadam.system.files import cache_dir

T = TypeVar("T")

#: Beyond this many bytes, the embeddings that were not used for longest are dropped.
CACHE_LIMIT = 512 * 2**20
#: Goes up when the tables change.
_LAYOUT = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS files (id TEXT PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS embeddings (
    key BLOB PRIMARY KEY, z BLOB NOT NULL, picture BLOB NOT NULL, checksum INTEGER NOT NULL,
    used REAL NOT NULL);
CREATE INDEX IF NOT EXISTS by_use ON embeddings (used);
"""
#: Share of the embeddings that are dropped at a time.
_DROPPED = 0.2
_WAIT_SECONDS = 5.0
_AT_ONCE = 500


@dataclass(frozen=True)
class Kept:
    """What is known of a photo.

    Attributes:
        z: Its embedding, (D,).
        picture: A small JPEG of it; empty if nobody asked for one.
    """

    z: npt.NDArray[np.float32]
    picture: bytes = b""


@dataclass(frozen=True)
class CacheInfo:
    """What the cache holds."""

    path: Path
    images: int
    bytes: int
    limit: int


class EmbeddingCache:
    """The cache of one user.

    Args:
        path: The SQLite file; by default in the user's cache folder.
        limit: Most bytes to keep.
    """

    def __init__(self, path: Path | None = None, limit: int = CACHE_LIMIT) -> None:
        self.path = path or cache_dir() / "embeddings.sqlite"
        self.limit = limit

    def contents(self, files: Sequence[Path]) -> list[bytes | None]:
        """A digest of what is in each file; None for one that cannot be read or is not a file."""
        ids = [file_id(file) for file in files]
        known: dict[str, bytes] = {}
        with self._open() as database:
            for some in _chunks([i for i in ids if i]):
                query = f"SELECT id, content FROM files WHERE id IN ({_marks(some)})"
                known |= dict(database.execute(query, some))
        new = [(file, i) for file, i in zip(files, ids, strict=True) if i and i not in known]
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            digests = list(pool.map(_digest, [file for file, _ in new]))
        found = {i: digest for (_, i), digest in zip(new, digests, strict=True) if digest}
        if found:
            with self._open() as database:
                database.executemany("INSERT OR REPLACE INTO files VALUES (?, ?)", found.items())
        known |= found
        return [known.get(i) if i else None for i in ids]

    def look_up(self, keys: Sequence[bytes]) -> dict[bytes, Kept]:
        """What is known under these keys; a damaged entry is not."""
        found: dict[bytes, Kept] = {}
        with self._open() as database:
            for some in _chunks(keys):
                query = "SELECT key, z, picture, checksum FROM embeddings"
                rows = database.execute(f"{query} WHERE key IN ({_marks(some)})", some)
                for key, z, picture, checksum in rows:
                    if _checksum(key, z, picture) == checksum and len(z) % 4 == 0:
                        found[key] = Kept(np.frombuffer(z, np.float32), picture)
                changed = f"UPDATE embeddings SET used = ? WHERE key IN ({_marks(some)})"
                database.execute(changed, [time.time(), *some])
        return found

    def keep(self, entries: dict[bytes, Kept]) -> None:
        """Adds entries; drops old ones if there are too many."""
        with self._open() as database:
            rows = [
                (key, z := kept.z.tobytes(), kept.picture, _checksum(key, z, kept.picture))
                for key, kept in entries.items()
            ]
            insert = f"INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?, ?, {time.time()})"
            database.executemany(insert, rows)
            if _bytes(database) > self.limit:
                _drop_some(database)

    def info(self) -> CacheInfo:
        """How much there is."""
        images = size = 0
        if self.path.exists():
            with self._open() as database:
                ((images,),) = database.execute("SELECT count(*) FROM embeddings")
                size = _bytes(database)
        return CacheInfo(self.path, images, size, self.limit)

    def clear(self) -> CacheInfo:
        """Removes everything; says what there was."""
        before = self.info()
        if self.path.exists():
            with self._open() as database:
                database.execute("DELETE FROM embeddings")
                database.execute("DELETE FROM files")
            with (
                contextlib.suppress(sqlite3.Error),
                closing(self._connected_or_empty()) as database,
            ):
                database.execute("VACUUM")  # not within a transaction
        return before

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A transaction. One that fails is undone and forgotten, and a damaged file is removed."""
        with closing(self._connected_or_empty()) as database:
            try:
                with database:
                    yield database
            except sqlite3.OperationalError:  # locked, read-only, or the disk is full
                pass
            except sqlite3.DatabaseError:
                self._remove()

    def _connected_or_empty(self) -> sqlite3.Connection:
        """The database; an empty one in memory if there is no place for it, or no way in."""
        for _ in range(2):
            try:
                return _with_tables(self._connected())
            except (sqlite3.OperationalError, OSError):
                break
            except sqlite3.DatabaseError:
                self._remove()
        return _with_tables(sqlite3.connect(":memory:"))

    def _connected(self) -> sqlite3.Connection:
        if not self.path.exists():  # it has pictures in it: for the user's eyes only
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        return sqlite3.connect(self.path, timeout=_WAIT_SECONDS)

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink()


def _with_tables(database: sqlite3.Connection) -> sqlite3.Connection:
    try:
        ((layout,),) = database.execute("PRAGMA user_version")
        if layout not in (0, _LAYOUT):
            database.executescript("DROP TABLE files; DROP TABLE embeddings;")
        if layout != _LAYOUT:
            database.executescript(f"{_TABLES} PRAGMA user_version = {_LAYOUT};")
    except BaseException:
        database.close()
        raise
    return database


def file_id(path: Path) -> str | None:
    """Which file it is, wherever it moves to; None unless it is one that we would read."""
    try:
        found = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
        return None
    return f"{found.st_dev}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"


def _digest(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=20)).digest()
    except OSError:
        return None


def _checksum(key: bytes, z: bytes, picture: bytes) -> int:
    return zlib.crc32(picture, zlib.crc32(z, zlib.crc32(key)))


def _bytes(database: sqlite3.Connection) -> int:
    """Bytes in use; pages that are free will be used again."""
    pages, free, size = (
        int(database.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def _drop_some(database: sqlite3.Connection) -> None:
    ((count,),) = database.execute("SELECT count(*) FROM embeddings")
    oldest = "SELECT key FROM embeddings ORDER BY used LIMIT ?"
    database.execute(f"DELETE FROM embeddings WHERE key IN ({oldest})", [1 + int(_DROPPED * count)])
    oldest = "SELECT rowid FROM files ORDER BY rowid LIMIT ?"
    database.execute(f"DELETE FROM files WHERE rowid IN ({oldest})", [1 + int(_DROPPED * count)])


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE))


def _marks(items: Sequence[object]) -> str:
    return ",".join("?" * len(items))
