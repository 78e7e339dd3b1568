"""Photos as files of a project, named by their content, with a thumbnail each."""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tadam.classify.duplicates import gradient_bits
from tadam.classify.thumbnails import thumbnail
from tadam.data.decode import decode_upright, image_facts
from tadam.errors import UserError
from tadam.system.files import make_folder, put_in_place, replacing

#: Pixels that a photo is decoded at, twice over, for its thumbnail.
_SIDE = 192
MEDIA_TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif",
                "BMP": "image/bmp", "TIFF": "image/tiff", "HEIF": "image/heic"}  # fmt: skip


@dataclass(frozen=True)
class Arrival:
    """A photo that was just stored.

    Attributes:
        name: What its sender calls it; text, never a path.
        digest: SHA-256 of its content, in hexadecimal.
        format: Its format, by its content.
        width: In pixels, as stored.
        height: In pixels.
        gradients: See `tadam.classify.duplicates`.
        mirrored: The same of the mirror image.
    """

    name: str
    digest: str
    format: str
    width: int
    height: int
    gradients: bytes
    mirrored: bytes


class StoredPhotos:
    """The folders `images` and `thumbnails` of a project."""

    def __init__(self, folder: Path) -> None:
        self._images, self._thumbnails = folder / "images", folder / "thumbnails"
        self._incoming = folder / "incoming"

    def make(self) -> None:
        """Creates the folders, and empties what an earlier server was receiving."""
        shutil.rmtree(self._incoming, ignore_errors=True)
        for folder in (self._images, self._thumbnails, self._incoming):
            make_folder(folder)

    def path(self, digest: str) -> Path:
        """Where a photo is."""
        return self._images / digest

    def sweep(self, known: Iterable[str]) -> None:
        """Removes photos that no row of the database names: a kill came before their row.

        Refuses links, which could show a file from anywhere as a photo.
        """
        wanted = set(known)
        for folder in (self._images, self._thumbnails):
            for entry in os.scandir(folder):
                if entry.is_symlink():
                    raise UserError(
                        f"{entry.path} is a link: put the photo itself in its place, or delete it"
                    )
                if entry.name.removesuffix(".jpg") not in wanted:
                    with contextlib.suppress(OSError):
                        os.unlink(entry.path)

    def receive(self, content: BinaryIO) -> tuple[Path, str]:
        """Copies a photo into the project under a temporary name; its path and digest."""
        digest = hashlib.sha256()
        handle, name = tempfile.mkstemp(dir=self._incoming)
        try:
            with open(handle, "wb") as file:
                while chunk := content.read(2**20):
                    digest.update(chunk)
                    file.write(chunk)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        return Path(name), digest.hexdigest()

    def examine(self, path: Path, digest: str, name: str) -> Arrival:
        """Looks at a received photo, makes its thumbnail, and puts both in their places.

        Raises a `UserError` if it cannot be decoded; then nothing is kept.
        """
        try:
            kind, width, height = image_facts(path, name)
            pixels = decode_upright(path, _SIDE, name)
            own, mirrored = gradient_bits(pixels), gradient_bits(pixels[:, ::-1])
            with replacing(self._thumbnails / f"{digest}.jpg") as temporary:
                temporary.write_bytes(thumbnail(pixels))
            put_in_place(path, self.path(digest))
        finally:
            path.unlink(missing_ok=True)
        return Arrival(name, digest, kind, width, height, own.tobytes(), mirrored.tobytes())

    def thumbnail(self, digest: str) -> Path:
        """The small JPEG of a photo, made anew if it is missing."""
        path = self._thumbnails / f"{digest}.jpg"
        if not path.exists():
            with replacing(path) as temporary:
                temporary.write_bytes(thumbnail(decode_upright(self.path(digest), _SIDE)))
        return path
