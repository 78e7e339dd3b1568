"""`omniglot` and `omniglot_rotated`: handwritten characters from 50 alphabets, 20 drawings each.

The split is that of Vinyals et al. (2016), as published by Snell et al. (2017). With characters in
alphabetical order, background before evaluation, the first 1200 are for training, except five whole
alphabets for validation; the rest are for test. `omniglot_rotated` adds each character turned by
90, 180 and 270 degrees as further classes, as both papers do.

The published drawings are black ink on white; here ink is white (255) on black (0), so that most of
an image is zero.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tadam.config import DataConfig
from tadam.data.archive import members
from tadam.data.cache import cached_stores, fingerprint
from tadam.data.decode import DECODER_VERSION, Pixels, decode_bytes, decode_into
from tadam.data.source import SPLITS, Download, Source
from tadam.data.store import ImageStore
from tadam.errors import UserError
from tadam.system.progress import Progress

_DEFAULT_IMAGE_SIZE = 28
_FOLDER = "omniglot"
ARCHIVES = ("images_background.zip", "images_evaluation.zip")
DRAWINGS = {"images_background.zip": 964 * 20, "images_evaluation.zip": 659 * 20}
#: SHA-256 of the drawings (see `_digest`), independent of how they are zipped.
CONTENT = {
    "images_background.zip": "07356096b8076fcf915341f8715e94822249e2a4d5b999fd2d0f6cf9ebffebd5",
    "images_evaluation.zip": "f5165eb5f20d18e13c6515650b69a42a2c0507506969d410ba5e4a1c572bd542",
}
_MD5 = {
    "images_background.zip": "68d2efa1b9178cc56df9314c21c6e718",
    "images_evaluation.zip": "6b91aef0f799c5bb55b94e3f2daec811",
}
VAL_ALPHABETS = frozenset(
    {"Armenian", "Bengali", "Early_Aramaic", "Hebrew", "Mkhedruli_(Georgian)"}
)
FIRST_OF_TEST = "Gurmukhi/character42"  # and every later character in the evaluation alphabets


def split_of(archive: str, character: str) -> str:
    """The split of a character such as "Greek/character01"."""
    if archive == ARCHIVES[0]:
        return "val" if _alphabet(character) in VAL_ALPHABETS else "train"
    return "test" if character >= FIRST_OF_TEST else "train"


def find(root: Path) -> list[Path]:
    """Both archives, if both are present."""
    files = [root / _FOLDER / name for name in ARCHIVES]
    return files if all(path.is_file() for path in files) else []


def load(root: Path, config: DataConfig, progress: Progress | None = None) -> dict[str, ImageStore]:
    """One single-channel store per split; characters and drawings are sorted by name."""
    files, size = find(root), config.image_size or _DEFAULT_IMAGE_SIZE
    key = f"{_FOLDER}-{fingerprint(root, files, DECODER_VERSION, size)}"

    def fill(out: npt.NDArray[np.uint8]) -> None:
        classes = [c for characters in _characters(files).values() for c in characters.values()]
        rows = {name: row for row, name in enumerate(chain.from_iterable(classes))}
        jobs = (
            (rows[name], partial(_ink, content, f"{name} in {path}", size))
            for path in files
            for name, content in _drawings(path)
        )
        decode_into(out, jobs, progress)

    stores = cached_stores(key, (size, size, 1), lambda: _counts(_characters(files)), fill)
    return {split: store.in_families(_alphabet) for split, store in stores.items()}


def load_rotated(
    root: Path, config: DataConfig, progress: Progress | None = None
) -> dict[str, ImageStore]:
    """Like `load`, with four classes per character."""
    return {split: store.rotated() for split, store in load(root, config, progress).items()}


def verify(root: Path, progress: Progress | None = None) -> list[str]:
    """Checks that the drawings are the published ones."""
    problems = []
    for done, path in enumerate(find(root)):
        if progress:
            progress(done, len(ARCHIVES))
        try:
            if _digest(path) != CONTENT[path.name]:
                problems.append(f"{path} does not hold the published drawings: download it again")
        except UserError as error:
            problems.append(str(error))
    return problems


def _characters(files: list[Path]) -> dict[str, dict[str, list[str]]]:
    """Names of each character's drawings, by split and character."""
    classes: dict[str, dict[str, list[str]]] = {split: {} for split in SPLITS}
    for path in files:
        names = sorted(m.name for m in members(path) if m.name.endswith(".png"))
        if len(names) != DRAWINGS[path.name]:
            raise UserError(
                f"{path} has {len(names)} drawings, expected {DRAWINGS[path.name]}: "
                "download it again"
            )
        for name in names:
            character = "/".join(name.split("/")[-3:-1])
            part = classes[split_of(path.name, character)]
            part.setdefault(character, []).append(name)
    return classes


def _alphabet(character: str) -> str:
    return character.partition("/")[0]


def _counts(classes: dict[str, dict[str, list[str]]]) -> dict[str, dict[str, int]]:
    return {split: {c: len(names) for c, names in part.items()} for split, part in classes.items()}


def _drawings(path: Path) -> Iterator[tuple[str, bytes]]:
    return ((m.name, m.read()) for m in members(path) if m.name.endswith(".png"))


def _ink(content: bytes, name: str, size: int) -> Pixels:
    """(size, size, 1), white on black."""
    return 255 - decode_bytes(content, name, size)[:, :, :1]


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    for name, content in sorted(_drawings(path)):
        digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest()


OMNIGLOT = Source(
    name="omniglot",
    summary="handwritten characters, split by Vinyals et al.",
    classes="1028/172/423",
    images="32,460",
    size="28x28 or any, grey",
    licence="MIT",
    layout="omniglot/images_background.zip and omniglot/images_evaluation.zip",
    load=load,
    verify=verify,
    find=find,
    downloads=tuple(
        Download(
            f"https://raw.githubusercontent.com/brendenlake/omniglot/master/python/{name}",
            path=f"{_FOLDER}/{name}",
            md5=_MD5[name],
        )
        for name in ARCHIVES
    ),
    resizable=True,
)
OMNIGLOT_ROTATED = replace(
    OMNIGLOT,
    name="omniglot_rotated",
    summary="the same, with quarter turns as separate classes",
    classes="4112/688/1692",
    images="129,840",
    load=load_rotated,
)
