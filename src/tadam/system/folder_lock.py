"""One process at a time writes to a folder. The system lets go of the lock of a killed process."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from tadam.errors import RunFailed, UserError


@contextmanager
def locked(lock: Path, folder: Path, wait: float = 0.0, keep: bool = False) -> Iterator[None]:
    """Holds the lock of a folder for the length of a block.

    Args:
        lock: A file that says who has the folder; its own folder is made if need be.
        folder: What it is about.
        wait: Seconds for another process to leave the folder.
        keep: Leave the file when the block ends.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{lock.parent} cannot be made ({error.strerror}): choose another folder"
        ) from None
    try:
        held = FileLock(lock).acquire(timeout=wait)
    except Timeout:
        holder = lock.read_text(encoding="utf-8") or "another process"
        raise RunFailed(
            f"{holder} is still writing to {folder}: wait for it to end, or stop it"
        ) from None
    with held:
        lock.write_text(f"process {os.getpid()} of {socket.gethostname()}", "utf-8")
        try:
            yield
        finally:
            if not keep:
                with suppress(OSError):  # Windows removes no open file
                    lock.unlink()
