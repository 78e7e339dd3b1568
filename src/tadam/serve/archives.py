"""A project's photos as a zip of class folders, its answers as CSV, its pictures for `.tadam`."""

import csv
import io
import re
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from tadam.classify.thumbnails import THUMBNAILS, Picture, shrunk
from tadam.data.folder import named_like_image
from tadam.serve.project import Project
from tadam.serve.stored_rows import Photo
from tadam.serve.taught import Taught
from tadam.system.untrusted_text import spreadsheet_cell

_ENDINGS = {"JPEG": ".jpg", "MPO": ".jpg", "HEIF": ".heic"}


def photos_zip(project: Project, path: Path, unlabelled: bool) -> None:
    """Writes all photos; those without a label stand outside the folders."""
    folders: dict[int | None, str] = {}
    taken: dict[str, set[str]] = {"": set()}
    for box in project.live_boxes():
        folders[box.id] = _free(_safe(box.name), taken[""])
        taken[folders[box.id]] = set()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for photo in project.live_photos():
            folder = folders.get(photo.class_id, "")
            if not folder and not unlabelled:
                continue
            name = _free(_file_name(photo), taken[folder])
            archive.write(project.files.path(photo.digest), f"{folder}/{name}".lstrip("/"))


def _file_name(photo: Photo) -> str:
    """A file name that says what kind of image it is."""
    name = _safe(photo.name)
    if named_like_image(Path(name)):
        return name
    return name + _ENDINGS.get(photo.format, f".{photo.format.lower()}")


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number if there is one like it, also for systems that ignore case."""
    found, path, number = name, Path(name), 1
    while found.casefold() in taken:
        number += 1
        found = f"{path.stem} ({number}){path.suffix}"
    taken.add(found.casefold())
    return found


def _safe(name: str) -> str:
    """A name as part of a path: nothing that leads elsewhere, is hidden, or Windows refuses."""
    plain = re.sub(r'[/\\:*?"<>|]', "_", name).rstrip(". ")
    return f"_{plain}" if not plain or plain.startswith(".") else plain


def answers_csv(project: Project, now: Taught) -> str:
    """A row for each photo; no cell is one that a spreadsheet runs."""
    names = {box.id: box.name for box in project.live_boxes()}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["photo", "name", "label", "answer", "confidence", "strangeness", "unknown"])
    for photo in project.live_photos():
        guess = now.guesses.get(photo.id)
        if guess is None:
            continue
        words = (photo.name, names.get(photo.class_id or -1, ""), names.get(guess.class_id, ""))
        numbers = (f"{guess.confidence:.6g}", f"{guess.strangeness:.6g}", int(guess.unknown))
        writer.writerow([photo.id, *map(spreadsheet_cell, words), *numbers])
    return text.getvalue()


def support_pictures(project: Project, now: Taught) -> list[list[Picture]]:
    """Small pictures of the first photos of each class, for reports of the classifier."""
    assert now.classifier is not None
    pictures: list[list[Picture]] = [[] for _ in now.class_ids]
    for number, k in zip(now.support_ids, now.classifier.support_labels_, strict=True):
        if len(pictures[k]) < THUMBNAILS and (photo := project.photos.get(number)):
            with Image.open(project.files.thumbnail(photo.digest), formats=("JPEG",)) as image:
                pictures[k].append(shrunk(np.asarray(image.convert("RGB"))))
    return pictures
