"""The files below a folder, and the folders among them that may not be read."""

import os
from pathlib import Path

from tadam.errors import UserError


def files_below(folder: Path, closed: list[Path] | None = None) -> list[Path]:
    """Everything below a folder that is not a folder, sorted; links to folders are not followed.

    Args:
        folder: Where to look.
        closed: Gets the folders that cannot be read; without it, the first one is an error.
    """
    unreadable: list[OSError] = []
    found = []
    for parent, folders, files in os.walk(folder, onerror=unreadable.append):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        found += [Path(parent, name) for name in (*files, *links)]
    for error in unreadable:
        if closed is None:
            raise UserError(
                f"folder {error.filename} cannot be read ({error.strerror}): give yourself "
                "permission, or move it away"
            )
        closed.append(Path(error.filename))
    return sorted(found)
