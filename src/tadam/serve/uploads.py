"""Files in a request: streamed to the disk, counted, and unpacked if they are zips.

A file's name is never used as a path, and its ending decides nothing.
"""

import io
import tempfile
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException

from tadam.data.encoded import Encoded
from tadam.data.photo_zip import zipped_photos
from tadam.errors import UserError
from tadam.serve.arrivals import Incoming
from tadam.serve.form_files import IN_MEMORY, PartOfPile, Pile, form_in_pile
from tadam.serve.problem import Refused
from tadam.serve.serve_settings import MAX_FIELD, ServeSettings
from tadam.system.untrusted_text import printable

#: The field `files` in the OpenAPI document.
FILES_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {"type": "string", "format": "binary"},
}
#: Fields of a form that are not files.
_MOST_FIELDS = 100


class SentFiles:
    """What a request brought: files, zips among them, and fields."""

    def __init__(self, files: list[Incoming], fields: dict[str, str]) -> None:
        self.files, self.fields = files, fields

    def flag(self, name: str) -> bool:
        """A field that is true or false."""
        value = self.fields.get(name, "false").lower()
        if value not in ("true", "false", "1", "0", ""):
            raise Refused(422, f"{name} is true or false: check the field")
        return value in ("true", "1")

    def number(self, name: str) -> int | None:
        """A field that is an id."""
        value = self.fields.get(name, "")
        if value and not (value.isdecimal() and value.isascii() and len(value) < 19):
            raise Refused(422, f"{name} is the id of a class: check the field")
        return int(value) if value else None


@asynccontextmanager
async def sent_files(request: Request, settings: ServeSettings) -> AsyncIterator[SentFiles]:
    """The files of a multipart request, or its raw body as a single one, while the block runs."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as body:
            async for chunk in request.stream():
                body.write(chunk)
            if not body.tell():
                raise Refused(422, "there is no photo in the request: send one as its body")
            yield SentFiles([Incoming("photo", lambda: _from_start(body))], {})
        return
    limits = {
        "max_files": settings.max_files,
        "max_fields": _MOST_FIELDS,
        "max_part_size": MAX_FIELD,
    }
    with closing(Pile()) as pile:
        try:
            form = await form_in_pile(pile, request.headers, request.stream(), **limits)
        except Refused:  # too large or too slow, which is a ValueError as well
            raise
        except (MultiPartException, ValueError, KeyError) as error:
            sentence = f"the form cannot be read ({printable(error)}): send it again"
            raise Refused(400, sentence) from None
        files, fields = [], {}
        for name, value in form:
            if isinstance(value, UploadFile):
                part = cast(PartOfPile, value.file)
                files.append(Incoming(value.filename or "photo", part.opened))
            else:
                fields[name] = value
        if not files:
            raise Refused(422, "there is no file in the form: send photos in the field 'files'")
        yield SentFiles(files, fields)


@contextmanager
def _from_start(file: Any) -> Iterator[BinaryIO]:
    """A file that its owner closes, from its beginning."""
    file.seek(0)
    yield file


def is_zip(file: Incoming) -> bool:
    """Whether a file begins as a zip does."""
    with file.open() as content:
        return content.read(4) == b"PK\x03\x04"


def unpacked_zips(
    files: list[Incoming],
    problems: list[tuple[str, str]],
    stack: ExitStack,
    members: Callable[[int], None] = lambda _: None,
) -> Iterator[Incoming]:
    """The files, with the photos that are in zips in the place of those.

    Args:
        files: What was sent.
        problems: Gets the name of each zip that cannot be used, and a sentence.
        stack: Closes the copies of the zips.
        members: Called with the number of photos in each zip, before they come.
    """
    for file in files:
        if not is_zip(file):
            yield file
            continue
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tadam-zip-")))
        path = folder / "photos.zip"
        with file.open() as content, open(path, "wb") as copy:
            while chunk := content.read(2**20):
                copy.write(chunk)
        try:
            photos = zipped_photos(path)
            members(len(photos))
            for folders, photo in photos:
                name = "/".join((*folders[:1], Path(photo.path or "photo").name))
                # Opened by whoever stores it: many members at a time would fill the memory.
                yield Incoming(name, partial(_member, photo, path, file.name))
        except (UserError, zipfile.BadZipFile) as error:
            problems.append((file.name, _about(error, path, file.name)))


@contextmanager
def _member(photo: Encoded, path: Path, name: str) -> Iterator[BinaryIO]:
    try:
        content = photo.read()
    except UserError as error:
        raise UserError(_about(error, path, name)) from None
    yield io.BytesIO(content)


def _about(error: Exception, path: Path, name: str) -> str:
    return str(error).replace(str(path), name)
