"""Published checksums: whether a file is the one its authors published."""

import hashlib
from pathlib import Path

from tadam.errors import UserError


def file_md5(path: Path) -> str:
    """MD5 of a file in hexadecimal: guards against accidents, not attackers."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, _md5).hexdigest()


def require_md5(path: Path, expected: str) -> None:
    """Refuses a file whose MD5 is not the published one."""
    found = file_md5(path)
    if found != expected:
        raise UserError(
            f"{path} is not the published file (md5 {found}, expected {expected}): "
            "delete it and download it again"
        )


def _md5() -> "hashlib._Hash":
    return hashlib.md5(usedforsecurity=False)
