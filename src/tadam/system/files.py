"""Atomic writes (temporary file, fsync, rename), and where data and caches live."""

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

#: Environment variable with the path of the data folder.
DATA_VARIABLE = "TADAM_DATA"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path next to `path`; on success, syncs it and renames it to `path`.

    If the block raises, the temporary file is removed and `path` is left unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp makes it private
        put_in_place(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def is_left_over(path: Path) -> bool:
    """Whether a process killed inside `replacing` left this file behind."""
    return re.fullmatch(r"\..+\.\w{8}\.tmp", path.name) is not None


def put_in_place(temporary: Path, path: Path) -> None:
    """Syncs a finished file and renames it to `path`."""
    with open(temporary, "rb+") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)
    _sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Writes a text file completely or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_with(path: Path, save: Callable[[Path], None]) -> None:
    """Calls `save` with a temporary path, then moves the file into place."""
    with replacing(path) as temporary:
        save(temporary)


def cache_dir() -> Path:
    """The user's cache folder for tadam (not created)."""
    return Path(platformdirs.user_cache_dir("tadam", appauthor=False))


def data_dir() -> Path:
    """The data folder: $TADAM_DATA (which `--data` sets), else a folder in the user's cache."""
    chosen = os.environ.get(DATA_VARIABLE)
    return Path(chosen).expanduser() if chosen else cache_dir() / "data"


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return  # Windows cannot open a folder, but makes renames durable anyway
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
