"""Downloads a file: resumes, checks the published checksum, then moves it into place.

Partial content is kept next to the target as NAME.part until it is complete.
"""

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from tadam.data.checksum import file_md5
from tadam.data.source import Download
from tadam.errors import RunFailed
from tadam.system.files import make_folder, not_written, put_in_place
from tadam.system.progress import Progress

#: Seconds without a byte before we give up on a server.
TIMEOUT = 30.0
_CHUNK = 2**18
_NUMBER = "[0-9]{1,18}"  # Python refuses to parse thousands of digits


class _WebPage(Exception):
    """The server sent a web page instead of the file."""


def fetch(download: Download, root: Path, progress: Progress | None = None) -> Path:
    """Downloads a file into the data folder unless it is already there.

    Args:
        download: The file's URL, path and checksum.
        root: The data folder.
        progress: Called with (bytes received, total bytes).

    Returns:
        The path of the complete, verified file.
    """
    path = root / download.path
    if path.exists():
        return path
    part = path.with_name(path.name + ".part")
    try:
        make_folder(part.parent)
    except OSError as error:
        raise not_written(part, error) from None
    try:
        _receive(download.url, part, progress)
    except urllib.error.HTTPError as error:
        raise RunFailed(
            f"{download.url} answered {error.code} {error.reason}: "
            f"try again later, or put the file at {path} yourself"
        ) from None
    except _WebPage:
        raise RunFailed(
            f"{download.url} sent a web page instead of the file: "
            f"open it in a browser and save the file as {path}"
        ) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        here = part.stat().st_size if part.exists() else 0
        raise RunFailed(
            f"the download of {download.url} stopped ({reason}): run the command again "
            f"to resume from the {here:,} bytes in {part}"
        ) from None
    found = file_md5(part)
    if found != download.md5:
        part.unlink()
        raise RunFailed(
            f"{download.url} did not send the published file (md5 {found}, expected "
            f"{download.md5}), so it was deleted: try again, or put the file at {path} yourself"
        )
    try:
        put_in_place(part, path)
    except OSError as error:
        raise not_written(path, error) from None
    return path


def _receive(url: str, part: Path, progress: Progress | None) -> None:
    """Downloads the rest of the part file."""
    here = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "tadam", **({"Range": f"bytes={here}-"} if here else {})}
    request = urllib.request.Request(url, headers=headers)
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and here:
            return  # already complete, or the checksum will fail
        raise
    with answer:
        if answer.headers.get_content_type() == "text/html":
            raise _WebPage
        if _starts_at(answer) != here:  # the server ignores ranges: start over
            here = 0
        length = answer.headers.get("Content-Length", "")
        total = here + int(length) if re.fullmatch(_NUMBER, length) else 0  # 0: unknown
        chunk = answer.read(_CHUNK)
        if not here and re.match(rb"\s*<(!doctype html|html)", chunk, re.IGNORECASE):
            raise _WebPage
        with _writing(part, "ab" if here else "wb") as write:
            while chunk:
                write(chunk)
                here += len(chunk)
                if progress:
                    progress(here, max(total, here))
                chunk = answer.read(_CHUNK)
    if here < total:
        raise ConnectionError(f"the connection closed {total - here:,} bytes early")


@contextmanager
def _writing(part: Path, mode: Literal["ab", "wb"]) -> Iterator[Callable[[bytes], None]]:
    """A function that writes to the part file; what the disk refuses is told from the network's."""
    try:
        file = open(part, mode)  # noqa: SIM115
    except OSError as error:
        raise not_written(part, error) from None

    def write(chunk: bytes) -> None:
        try:
            file.write(chunk)
            file.flush()
        except OSError as error:
            raise not_written(part, error) from None

    try:
        yield write
    finally:
        with suppress(OSError):  # reported by `write`, which leaves nothing unwritten otherwise
            file.close()


def _starts_at(answer: http.client.HTTPResponse) -> int:
    """Offset of the first byte of the answer: 0 unless the server says otherwise."""
    if answer.status != http.client.PARTIAL_CONTENT:
        return 0
    said = re.match(rf"bytes ({_NUMBER})-", answer.headers.get("Content-Range", ""))
    return int(said[1]) if said else -1
