"""Downloads: resumed where they stopped, checked against the published checksum, then put in place.

What has arrived is kept beside the target as NAME.part until it is whole.
"""

import http.client
import re
import urllib.error
import urllib.request
from pathlib import Path

from tadam.data.checksum import file_md5
from tadam.data.source import Download
from tadam.errors import RunFailed
from tadam.system.files import put_in_place
from tadam.system.progress import Progress

#: Seconds without a byte after which a server counts as gone.
TIMEOUT = 30.0
_CHUNK = 2**18
_NUMBER = "[0-9]{1,18}"  # Python refuses to read one of thousands of digits


class _WebPage(Exception):
    """A page to look at, where a file was asked for."""


def fetch(download: Download, root: Path, progress: Progress | None = None) -> Path:
    """Downloads a file into the data folder, unless it is there.

    Args:
        download: What, from where, with which checksum.
        root: The data folder.
        progress: Called with (bytes that are here, bytes in all).

    Returns:
        The file, whole and as published.
    """
    path = root / download.path
    if path.exists():
        return path
    part = path.with_name(path.name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        _receive(download.url, part, progress)
    except urllib.error.HTTPError as error:
        raise RunFailed(
            f"{download.url} answered {error.code} {error.reason}: "
            f"try later, or put the file at {path} yourself"
        ) from None
    except _WebPage:
        raise RunFailed(
            f"{download.url} answered with a web page instead of the file: "
            f"open it in a browser, and put the file at {path} yourself"
        ) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        here = part.stat().st_size if part.exists() else 0
        raise RunFailed(
            f"the download of {download.url} stopped ({reason}): run the command again "
            f"to go on from the {here:,} bytes in {part}"
        ) from None
    found = file_md5(part)
    if found != download.md5:
        part.unlink()
        raise RunFailed(
            f"what {download.url} sent is not the file that was published (md5 {found}, not "
            f"{download.md5}) and was deleted: try again, or put the file at {path} yourself"
        )
    put_in_place(part, path)
    return path


def _receive(url: str, part: Path, progress: Progress | None) -> None:
    """Adds to the part file what it lacks."""
    here = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "tadam", **({"Range": f"bytes={here}-"} if here else {})}
    request = urllib.request.Request(url, headers=headers)
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and here:
            return  # nothing is lacking; the checksum will tell
        raise
    with answer:
        if answer.headers.get_content_type() == "text/html":
            raise _WebPage
        if _starts_at(answer) != here:  # the server ignores ranges: all over again
            here = 0
        length = answer.headers.get("Content-Length", "")
        total = here + int(length) if re.fullmatch(_NUMBER, length) else 0  # 0: unknown
        chunk = answer.read(_CHUNK)
        if not here and re.match(rb"\s*<(!doctype html|html)", chunk, re.IGNORECASE):
            raise _WebPage
        with open(part, "ab" if here else "wb") as file:
            while chunk:
                file.write(chunk)
                here += len(chunk)
                if progress:
                    progress(here, max(total, here))
                chunk = answer.read(_CHUNK)
    if here < total:
        raise ConnectionError(f"the connection ended {total - here:,} bytes too early")


def _starts_at(answer: http.client.HTTPResponse) -> int:
    """The first byte that a server sends: 0 unless it says otherwise."""
    if answer.status != http.client.PARTIAL_CONTENT:
        return 0
    said = re.match(rf"bytes ({_NUMBER})-", answer.headers.get("Content-Range", ""))
    return int(said[1]) if said else -1
