"""Lets one process at a time write to a folder or file; a killed process's lock is free."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tadam.errors import RunFailed, UserError
from tadam.system.files import make_folder, not_written

#: Seconds that a command waits for another one that changes the same file or sorts into the same
#: folder.
PATIENCE = 600.0


@contextmanager
def locked(lock: Path, folder: Path, wait: float = 0.0, keep: bool = False) -> Iterator[None]:
    """Holds the lock of a folder or file while the block runs.

    Args:
        lock: File that names the process holding it; its parents are created if needed.
        folder: What is locked, for messages.
        wait: Seconds to wait for another process to release it.
        keep: Keep the lock file when the block ends.
    """
    from filelock import FileLock, Timeout  # here, so that `tadam --help` does not wait for it

    try:
        make_folder(lock.parent)
    except OSError as error:
        raise UserError(
            f"{lock.parent} cannot be created ({error.strerror}): choose another folder"
        ) from None
    try:
        held = FileLock(lock).acquire(timeout=wait)
    except Timeout:
        holder = "another process"
        with suppress(OSError):
            holder = lock.read_text(encoding="utf-8", errors="replace")[:200] or holder
        raise RunFailed(
            f"{holder} is still writing to {folder}: wait for it to finish, or stop it"
        ) from None
    except OSError as error:
        raise not_written(lock, error) from None
    with held:
        with suppress(OSError):  # a full disk, which what is written next will report
            lock.write_text(f"process {os.getpid()} on {socket.gethostname()}", "utf-8")
        try:
            yield
        finally:
            if not keep:
                with suppress(OSError):  # Windows cannot remove an open file
                    lock.unlink()
