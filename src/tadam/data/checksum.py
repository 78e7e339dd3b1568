"""Published checksums: whether a file is what its makers published."""

import hashlib
from pathlib import Path

from tadam.errors import UserError


def file_md5(path: Path) -> str:
    """MD5 of a file, as hexadecimal digits: against accidents, not against attackers."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, _md5).hexdigest()


def require_md5(path: Path, expected: str) -> None:
    """Refuses a file whose MD5 is not the published one."""
    found = file_md5(path)
    if found != expected:
        raise UserError(
            f"{path} is not the file that was published (md5 {found}, not {expected}): "
            "delete it and get it again"
        )


def _md5() -> "hashlib._Hash":
    return hashlib.md5(usedforsecurity=False)
