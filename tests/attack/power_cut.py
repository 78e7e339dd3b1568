"""A disk that loses its power: what was not synced is gone, what was acknowledged must be there.

While `Disk` watches, it notes what each sync makes durable: a file's content when the file is
synced, a folder's names when the folder is synced. `after_a_cut` writes what would be left of a
folder if the power failed now. File systems may also write early what they were not asked to, so
there are two answers: names as last synced, or names as they are now. Either way a file has the
content that it had when it was last synced; one that never was is empty.
"""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: Calls after which the power may fail.
_CALLS = ("fsync", "replace", "link", "unlink", "mkdir")


class Disk:
    """What is durable below a folder.

    Args:
        folder: The folder; its name is durable, its content not yet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._contents: dict[int, bytes] = {}  # by inode
        self._names: dict[int, dict[str, int]] = {}  # names in a folder, both by inode
        self._restoring = False  # the calls are our own
        self._kept: dict[int, Any] = {}  # open files, so that no inode is used again

    @contextmanager
    def watching(self, cut: Callable[[], None]) -> Iterator[None]:
        """Calls `cut` at every moment at which the power may fail."""
        originals = {name: getattr(os, name) for name in _CALLS}

        def wrapped(name: str) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                made = originals[name](*arguments, **options)
                if not self._restoring:
                    if name == "fsync":
                        self._synced(arguments[0])
                    cut()
                return made

            return call

        for name in _CALLS:
            setattr(os, name, wrapped(name))
        try:
            yield
        finally:
            for name, original in originals.items():
                setattr(os, name, original)

    def _synced(self, descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        about = os.fstat(descriptor)
        if not path.is_relative_to(self._folder):
            return
        if stat.S_ISDIR(about.st_mode):
            self._names[about.st_ino] = _names(path)
        else:
            self._contents[about.st_ino] = path.read_bytes()
            self._kept.setdefault(about.st_ino, open(path, "rb"))  # noqa: SIM115

    def after_a_cut(self, target: Path, early: bool) -> Path:
        """Writes what would be left into `target`; `early`: names are durable without a sync."""
        self._restoring = True
        shutil.rmtree(target, ignore_errors=True)
        self._restore(os.stat(self._folder).st_ino, self._folder, target, early)
        self._restoring = False
        return target

    def _restore(self, inode: int, folder: Path, target: Path, early: bool) -> None:
        target.mkdir()
        names = _names(folder) if early else self._names.get(inode, {})
        for name, number in names.items():
            inside = folder / name
            if inside.is_dir() and inside.stat().st_ino == number:
                self._restore(number, inside, target / name, early)
            else:
                (target / name).write_bytes(self._contents.get(number, b""))


def _names(folder: Path) -> dict[str, int]:
    return {entry.name: entry.inode() for entry in os.scandir(folder)}
