"""Tar and zip archives, read in place: nothing is extracted, and no member is trusted."""

import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tadam.data.failures import in_a_sentence
from tadam.errors import UserError

#: What to do about a damaged data set.
REMEDY = "delete it and download it again"
#: Largest member we accept, in bytes; the largest in any data set we read is 149 MB.
MAX_MEMBER = 512 * 2**20


class Member(NamedTuple):
    """A file in an archive; call `read` before moving on to the next one."""

    name: str
    read: Callable[[], bytes]


def members(path: Path) -> Iterator[Member]:
    """The files in a .zip, .tar, .tar.gz or .tgz, in stored order."""
    return _zip_members(path) if path.suffix == ".zip" else _tar_members(path)


def _zip_members(path: Path) -> Iterator[Member]:
    with in_a_sentence(str(path), REMEDY), zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            is_link = stat.S_ISLNK(info.external_attr >> 16)
            _check(path, info.filename, info.file_size, is_link)
            if not info.is_dir():
                yield Member(info.filename, _guarded(path, partial(archive.read, info)))


def _tar_members(path: Path) -> Iterator[Member]:
    with in_a_sentence(str(path), REMEDY), tarfile.open(path, "r|*") as archive:
        for info in archive:
            is_link = not (info.isreg() or info.isdir())  # devices are refused too
            _check(path, info.name, info.size, is_link)
            file = archive.extractfile(info) if info.isreg() else None
            if file:
                yield Member(info.name, _guarded(path, file.read))


def why_refused(name: str, size: int, is_link: bool, most: int) -> str | None:
    """What is wrong with a member that is not to be read, judged before reading it."""
    if ".." in re.split(r"[/\\]", name) or re.match(r"[/\\]|[A-Za-z]:", name):
        return "a member that would escape its folder"
    if is_link:
        return "a link"
    return f"a member of {size / 2**20:,.0f} MB" if size > most else None


def _check(path: Path, name: str, size: int, is_link: bool) -> None:
    wrong = why_refused(name, size, is_link, MAX_MEMBER)
    if wrong:
        raise UserError(
            f"{path} contains {wrong}, {name!r}: it is not the published file; download it again "
            "from the official source"
        )


def _guarded(path: Path, read: Callable[[], bytes]) -> Callable[[], bytes]:
    def guarded() -> bytes:
        with in_a_sentence(str(path), REMEDY):
            return read()

    return guarded
