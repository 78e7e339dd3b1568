"""Tar and zip archives, read in place: nothing is extracted, and no member is trusted."""

import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tadam.errors import UserError

#: Bytes of a member beyond which an archive is refused; the largest we read has 149 MB.
MAX_MEMBER = 512 * 2**20


class Member(NamedTuple):
    """A file in an archive; `read` before asking for the next one."""

    name: str
    read: Callable[[], bytes]


def members(path: Path) -> Iterator[Member]:
    """The files of a .zip, .tar, .tar.gz or .tgz, in the order in which they are stored."""
    return _zip_members(path) if path.suffix == ".zip" else _tar_members(path)


def _zip_members(path: Path) -> Iterator[Member]:
    with _reading(path), zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            is_link = stat.S_ISLNK(info.external_attr >> 16)
            _check(path, info.filename, info.file_size, is_link)
            if not info.is_dir():
                yield Member(info.filename, _guarded(path, partial(archive.read, info)))


def _tar_members(path: Path) -> Iterator[Member]:
    with _reading(path), tarfile.open(path, "r|*") as archive:
        for info in archive:
            is_link = not (info.isreg() or info.isdir())  # a device is as unwelcome
            _check(path, info.name, info.size, is_link)
            file = archive.extractfile(info) if info.isreg() else None
            if file:
                yield Member(info.name, _guarded(path, file.read))


def _check(path: Path, name: str, size: int, is_link: bool) -> None:
    wrong = None
    if ".." in re.split(r"[/\\]", name) or re.match(r"[/\\]|[A-Za-z]:", name):
        wrong = "a member that would leave its folder"
    elif is_link:
        wrong = "a link"
    elif size > MAX_MEMBER:
        wrong = f"a member of {size / 2**20:,.0f} MB"
    if wrong:
        raise UserError(
            f"{path} holds {wrong}, {name!r}: it is not what was published; get it from its makers"
        )


def _guarded(path: Path, read: Callable[[], bytes]) -> Callable[[], bytes]:
    def guarded() -> bytes:
        with _reading(path):
            return read()

    return guarded


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns what a damaged archive raises into one sentence."""
    try:
        yield
    except UserError:
        raise
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        RuntimeError,  # a password, a compression that is not known
        ValueError,
    ) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise UserError(f"{path} cannot be opened: {error.strerror}") from None
        raise UserError(f"{path} is damaged or cut off: delete it and get it again") from None
