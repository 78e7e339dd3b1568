"""A project of ten thousand photos, written straight into its folder."""

import hashlib
import io
import time
from pathlib import Path

import numpy as np
from PIL import Image

from tadam.classify.duplicates import gradient_bits
from tadam.serve.drawings import SUBJECTS, drawing
from tadam.serve.project import Project

#: Side of a photo, and of what the small model sees.
_SIDE, _SEEN = 48, 16


def project_of_many(folder: Path, model: str, count: int, labelled: int = 60) -> Path:
    """A project with `count` photos of every subject in turn, the first `labelled` in classes.

    No two photos are the same: each has its number in its corner. Their embeddings are made up, a
    cloud for each subject, so that no network has to look at them; thumbnails are made when the
    browser asks for them.
    """
    project = Project(folder, ("Ten thousand", model))
    names = list(SUBJECTS)
    boxes = [project.add_class(name).id for name in names]
    drawn = [[np.asarray(drawing(name, n, _SIDE)) for n in range(12)] for name in names]
    dice = np.random.default_rng(0)
    clouds = dice.normal(128, 50, (len(names), 3 * _SEEN * _SEEN)).astype(np.float32)
    kinds = np.arange(count) % len(names)
    z = clouds[kinds] + dice.normal(0, 60, (count, clouds.shape[1])).astype(np.float32)
    bits = gradient_bits(drawn[0][0])
    prints = dice.integers(0, 2, (count, *bits.shape)).astype(bits.dtype)
    rows, seen = [], []
    for number in range(count):
        kind = number % len(names)
        content = _png(drawn[kind][number // len(names) % 12], number)
        digest = hashlib.sha256(content).hexdigest()
        project.files.path(digest).write_bytes(content)
        box = boxes[kind] if number < labelled else None
        own = prints[number].tobytes()
        rows.append((number + 1, digest, f"{number:05}.png", "PNG", _SIDE, _SIDE, box, 0,
                     time.time(), own, own))  # fmt: skip
        seen.append((number + 1, model, z[number].tobytes()))
    with project.database.transaction() as connection:
        connection.executemany(f"INSERT INTO image VALUES ({', '.join('?' * 11)})", rows)
        connection.executemany("INSERT INTO embedding VALUES (?, ?, ?)", seen)
    project.close()
    return folder


def _png(pixels: np.ndarray, number: int) -> bytes:
    marked = pixels.copy()
    marked[:2, :4] = np.frombuffer(number.to_bytes(24, "little"), np.uint8).reshape(2, 4, 3)
    buffer = io.BytesIO()
    Image.fromarray(marked).save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()
