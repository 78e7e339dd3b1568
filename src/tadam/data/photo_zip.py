"""A zip of class folders, read in place: every member is checked before any of them is read."""

import stat
import zipfile
from functools import partial
from pathlib import Path, PurePosixPath

from tadam.data.archive import why_refused
from tadam.data.encoded import Encoded
from tadam.data.failures import in_a_sentence
from tadam.data.folder import named_like_image
from tadam.errors import UserError

#: A zip with more than this is refused: it is not somebody's photos.
MAX_PHOTO_BYTES, MAX_PHOTOS, MAX_ZIP_BYTES = 64 * 2**20, 100_000, 32 * 2**30
_REMEDY = "make it again"


def zipped_photos(path: Path) -> list[tuple[tuple[str, ...], Encoded]]:
    """The images of a zip, sorted: the folders that each is in, and how to read it.

    Hidden files and what macOS adds are left out, and so is a folder that holds everything else.
    """
    with in_a_sentence(str(path), _REMEDY):
        archive = zipfile.ZipFile(path)
    members = [info for info in archive.infolist() if not info.is_dir()]
    for info in members:
        is_link = stat.S_ISLNK(info.external_attr >> 16)
        wrong = why_refused(info.filename, info.file_size, is_link, MAX_PHOTO_BYTES)
        if info.flag_bits & 1:
            wrong = "a member with a password"
        if wrong:
            raise UserError(f"{path} contains {wrong}, {info.filename!r}: make it again without")
    if len(members) > MAX_PHOTOS or sum(info.file_size for info in members) > MAX_ZIP_BYTES:
        raise UserError(
            f"{path} has more than {MAX_PHOTOS:,} files or {MAX_ZIP_BYTES // 2**30} GB: unpack it "
            "and give the folder"
        )
    photos = [(PurePosixPath(info.filename), info) for info in members]
    photos = [(name, info) for name, info in photos if _is_photo(name)]
    if not photos:
        raise UserError(f"there are no images in {path}: put each class's in a folder of its own")
    tops = {name.parts[0] for name, _ in photos}
    wrapped = len(tops) == 1 and all(len(name.parts) > 2 for name, _ in photos)
    return [
        (
            name.parts[int(wrapped) : -1],
            Encoded(f"{path}/{name}", partial(_read, path, archive, info), f"{path}/{name}"),
        )
        for name, info in sorted(photos, key=lambda photo: photo[0].parts)
    ]


def zipped_classes(path: Path, nested: bool = False) -> dict[str, list[Encoded]]:
    """The images of each class: its outermost folder, or with `nested` the path of its own."""
    classes: dict[str, list[Encoded]] = {}
    for folders, photo in zipped_photos(path):
        if not folders:
            raise UserError(
                f"{photo.name} is outside any class folder: put each class's images in a folder "
                "of its own"
            )
        classes.setdefault("/".join(folders) if nested else folders[0], []).append(photo)
    return dict(sorted(classes.items()))


def _is_photo(name: PurePosixPath) -> bool:
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in name.parts)
    return named_like_image(Path(name.name)) and not hidden


def _read(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with in_a_sentence(str(path), _REMEDY):
        return archive.read(info)
