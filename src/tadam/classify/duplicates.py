"""Photos that are the same: copied, scaled, recompressed, brightened, mirrored or hardly cropped.

Two things have to agree. A hash of brightness gradients sees the layout of a picture; it forgives
scale and compression, but a plain background may look like another. An embedding sees the subject.
"""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from tadam.classify.reading import ImageSource, read
from tadam.classify.thumbnails import REPORT_SIDE, thumbnail
from tadam.data.decode import Pixels
from tadam.data.encoded import Encoded
from tadam.errors import UserError
from tadam.system.progress import Progress

#: Of 128 gradients, so many may differ at a cosine similarity of 1, and none at `_LEAST_ALIKE`.
#: Chosen on copies that we made of 200 photos of clothing and birds: docs/explain/checks.md.
_MOST_BITS, _LEAST_ALIKE = 30, 0.4
#: Photos that are compared with all others at once.
_ROWS = 512
#: Embeddings of one photo differ by less than this share of their length, from run to run.
_SAME = 1e-3


@dataclass(frozen=True)
class Fingerprint:
    """What tells copies of a photo.

    Attributes:
        digest: SHA-256 of the file.
        gradients: Where brightness grows to the right and down, 128 bits as (16,) uint8.
        mirrored: The same for the mirror image.
        thumbnail: A small JPEG; None unless asked for.
    """

    digest: bytes
    gradients: npt.NDArray[np.uint8]
    mirrored: npt.NDArray[np.uint8]
    thumbnail: bytes | None = None


def fingerprints(
    images: Sequence[ImageSource],
    thumbnails: bool = False,
    progress: Progress | None = None,
    problems: list[str] | None = None,
) -> list[Fingerprint | None]:
    """A fingerprint of each image; None for one that cannot be read.

    Args:
        images: What to read.
        thumbnails: Whether to keep small JPEGs.
        progress: Called with (images read, total images).
        problems: Gets a sentence for each image that cannot be read; without it, the first such
            image is an error.
    """

    def one(numbered: tuple[int, ImageSource]) -> Fingerprint | UserError:
        try:
            return _fingerprint(*numbered, thumbnails)
        except UserError as error:
            return error

    found: list[Fingerprint | None] = []
    with ThreadPoolExecutor() as pool:
        for result in pool.map(one, enumerate(images)):
            if isinstance(result, UserError):
                if problems is None:
                    pool.shutdown(cancel_futures=True)
                    raise result
                problems.append(str(result))
            found.append(result if isinstance(result, Fingerprint) else None)
            if progress:
                progress(len(found), len(images))
    return found


def _fingerprint(number: int, image: ImageSource, keep: bool) -> Fingerprint:
    pixels = read(image, number, REPORT_SIDE // 2, 3)  # first: it refuses what is no regular file
    digest = hashlib.sha256()
    if isinstance(image, Path):
        with open(image, "rb") as file:
            digest = hashlib.file_digest(file, "sha256")
    else:
        digest.update(image.read() if isinstance(image, Encoded) else pixels.tobytes())
    own, mirrored = gradient_bits(pixels), gradient_bits(pixels[:, ::-1])
    return Fingerprint(digest.digest(), own, mirrored, thumbnail(pixels) if keep else None)


def gradient_bits(pixels: Pixels) -> npt.NDArray[np.uint8]:
    """Whether each of 8 x 8 cells is brighter than the one to its left, and above: (16,) uint8."""
    grey = Image.fromarray(np.ascontiguousarray(pixels)).convert("L")
    across = np.asarray(grey.resize((9, 8), Image.Resampling.BOX)).astype(np.int16)
    down = np.asarray(grey.resize((8, 9), Image.Resampling.BOX)).astype(np.int16)
    return np.packbits(
        np.concatenate([np.diff(across).ravel() > 0, np.diff(down, axis=0).ravel() > 0])
    )


def duplicate_groups(prints: Sequence[Fingerprint], z: npt.NDArray[np.float32]) -> list[list[int]]:
    """Places of photos that are copies of each other, each group and all groups sorted.

    Args:
        prints: Of N photos.
        z: Their embeddings, (N, D).
    """
    centred = z - z.mean(axis=0)
    unit = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
    own = np.stack([p.gradients for p in prints])
    mirrored = np.stack([p.mirrored for p in prints])
    group = np.arange(len(prints))  # the smallest place in the group, once all pairs are joined

    def root(i: int) -> int:
        while group[i] != i:
            i = group[i]
        return i

    by_digest: dict[bytes, int] = {}
    pairs = [(by_digest.setdefault(p.digest, i), i) for i, p in enumerate(prints)]
    for start in range(0, len(prints), _ROWS):
        alike = unit[start : start + _ROWS] @ unit[start:].T  # each pair is seen once
        alike[np.tril_indices(len(alike))] = -1  # nor a photo with itself
        rows, columns = np.nonzero(alike >= _LEAST_ALIKE)
        limit = _MOST_BITS * (alike[rows, columns] - _LEAST_ALIKE) / (1 - _LEAST_ALIKE)
        rows, columns = rows + start, columns + start
        differing = np.minimum(
            _differing(own[rows], own[columns]), _differing(own[rows], mirrored[columns])
        )
        near = differing <= limit
        pairs += zip(rows[near].tolist(), columns[near].tolist(), strict=True)
    for i, j in pairs:
        low, high = sorted((root(i), root(j)))
        group[high] = low
    groups: dict[int, list[int]] = {}
    for i in range(len(prints)):
        groups.setdefault(root(i), []).append(i)
    return [some for some in groups.values() if len(some) > 1]


def _differing(one: npt.NDArray[np.uint8], other: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Bits that differ, row by row."""
    return np.asarray(np.unpackbits(one ^ other, axis=1).sum(axis=1, dtype=np.int64))


def copies_among(z: npt.NDArray[np.float32], old: int) -> int:
    """How many embeddings from place `old` on are the same as one of the first `old`."""
    known, lengths = z[:old], (z[:old] ** 2).sum(axis=1)
    count = 0
    for start in range(old, len(z), _ROWS):
        new = z[start : start + _ROWS]
        own = (new**2).sum(axis=1)
        apart = own[:, None] + lengths - 2 * new @ known.T
        nearest = apart.argmin(axis=1)
        exact = ((new - known[nearest]) ** 2).sum(axis=1)  # the formula above loses digits
        count += int((exact <= _SAME**2 * own).sum())
    return count
