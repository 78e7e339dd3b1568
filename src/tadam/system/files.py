"""Atomic writes (temporary file, fsync, rename), and where data and caches live."""

import errno
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs

from tadam.errors import RunFailed, UserError

#: Environment variable with the path of the data folder.
DATA_VARIABLE = "TADAM_DATA"
#: In the names of temporary files, to know ours from others'.
_TAG = "tadam-"
#: Seconds after which a temporary file counts as left behind by a killed process.
_OLD = 24 * 3600


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path next to `path`; on success, syncs it and renames it to `path`.

    If the block raises, the temporary file is removed and `path` is left unchanged. What the system
    refuses becomes a sentence about `path`.
    """
    try:
        make_folder(path.parent)
        _sweep(path)
        prefix = f".{path.name[:50]}.{_TAG}"  # names may have 255 bytes
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=".tmp")
        os.close(handle)
    except OSError as error:
        raise not_written(path, error) from None
    except ValueError:  # a NUL in the path
        raise UserError(f"{str(path)!r} is not a path: choose another file") from None
    temporary = Path(name)
    try:
        yield temporary
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp makes it private
        put_in_place(temporary, path)
    except OSError as error:
        raise not_written(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def not_written(path: Path, error: OSError) -> UserError | RunFailed:
    """The error for a file that the system does not let us write."""
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return RunFailed(f"{path} cannot be written, the disk is full ({reason}): make room there")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return UserError(f"{path} cannot be written ({reason}): choose a place you may write to")
    if error.errno in (errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EEXIST):
        return UserError(f"{path} cannot be written ({reason}): choose another file")
    return RunFailed(f"{path} cannot be written ({reason}): check the disk, then try again")


def is_left_over(path: Path) -> bool:
    """Whether a process killed inside `replacing` left this file behind."""
    return re.fullmatch(rf"\..+\.(?:{_TAG})?\w{{8}}\.tmp", path.name) is not None


def _sweep(path: Path) -> None:
    """Removes what killed processes left next to `path`, if it is old and ours.

    Ours are files with our tag, and those of 0.1.0, which had none, for the same `path`.
    """
    tagged = re.compile(rf"\..+\.{_TAG}\w{{8}}\.tmp|\.{re.escape(path.name)}\.\w{{8}}\.tmp")
    for entry in os.scandir(path.parent):
        if entry.name.startswith(".") and tagged.fullmatch(entry.name):
            with suppress(OSError):
                about = entry.stat(follow_symlinks=False)
                owned = not hasattr(os, "getuid") or about.st_uid == os.getuid()
                if owned and stat.S_ISREG(about.st_mode) and time.time() - about.st_mtime > _OLD:
                    os.unlink(entry.path)


def make_folder(folder: Path) -> None:
    """Creates a folder and its parents, so that they survive a power cut."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in reversed(missing):
        _sync_folder(path.parent)


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
