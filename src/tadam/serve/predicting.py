"""Photos in, answers out, as the API gives them."""

import asyncio
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from tadam.classify.embedded import Embedded
from tadam.data.encoded import Encoded
from tadam.errors import UserError
from tadam.serve.arrivals import Incoming
from tadam.serve.naming import photo_name
from tadam.serve.prediction_queue import BatchShare, PhotoQueue
from tadam.serve.problem import Refused
from tadam.serve.taught import Reply, Taught

#: Bytes that a photo in a question may have, and that all those of one may have in memory; a
#: project takes larger ones.
_MOST_BYTES = 64 * 2**20
#: A batch -> who answered it, and the replies: the first request of a batch works out all of them.
_replies: "WeakKeyDictionary[Embedded, tuple[Taught, list[Reply]]]" = WeakKeyDictionary()


async def answered(
    queue: PhotoQueue, now: Taught, files: list[Incoming], model: str, revision: int
) -> dict[str, Any]:
    """The answers for photos of a request.

    Args:
        queue: What embeds photos.
        now: The classifier.
        files: The photos.
        model: Its model's name.
        revision: Of the project.
    """
    assert now.eyes is not None
    photos = _encoded(files)
    found = await asyncio.wrap_future(queue.submit(now.eyes, photos))
    names = [photo.name for photo in photos]
    return {
        "model": model,
        "revision": revision,
        "answers": answer_items(now, found, names),
        "problems": [{"name": names[row], "detail": s} for row, s in found.problems.items()],
    }


def _encoded(files: list[Incoming]) -> list[Encoded]:
    """Photos in memory, as far as there is room; the rest are read when their turn comes."""
    found, room = [], _MOST_BYTES
    for file in files:
        name = photo_name(file.name)
        with file.open() as content:
            size = content.seek(0, io.SEEK_END)
            if size > _MOST_BYTES:
                most = _MOST_BYTES // 2**20
                raise Refused(413, f"{name} is larger than {most} MB: scale it down first")
            if size <= room:
                content.seek(0)
                room -= size
                found.append(Encoded(name, _kept(content.read())))
            else:
                found.append(Encoded(name, partial(_read, file)))
    return found


def _kept(data: bytes) -> Callable[[], bytes]:
    return lambda: data


def _read(file: Incoming) -> bytes:
    try:
        with file.open() as content:
            return content.read()
    except (OSError, ValueError) as error:  # a full disk say; costs the rest of a batch nothing
        raise UserError(f"it cannot be read ({error}): send it again") from None


def answer_items(now: Taught, found: Embedded, names: list[str]) -> list[dict[str, Any]]:
    """An answer for each photo that could be read."""
    if not found.rows or now.classifier is None:
        return []
    labels = [str(name) for name in now.classifier.classes_.tolist()]
    by_id = dict(zip(now.class_ids, labels, strict=True))
    items = []
    for row, (p, strange, near) in zip(found.rows, _answers(now, found), strict=True):
        best = int(p.argmax())
        unknown = bool(strange > now.classifier.reject_threshold_)
        order = sorted(range(len(labels)), key=lambda k: -p[k])
        items.append(
            {
                "name": names[row],
                "label": None if unknown else labels[best],
                "class_id": now.class_ids[best],
                "confidence": float(p[best]),
                "unknown": unknown,
                "strangeness": float(strange),
                "probabilities": [
                    {"class_id": now.class_ids[k], "label": labels[k], "probability": float(p[k])}
                    for k in order
                ],
                "nearest": [
                    {"id": i, "label": by_id[k], "similarity": alike} for i, k, alike in near
                ],
            }
        )
    return items


def _answers(now: Taught, found: Embedded) -> list[Reply]:
    """What the classifier says of each photo."""
    if not isinstance(found, BatchShare):
        return now.replies(found.z)
    known = _replies.get(found.batch)
    if known is None or known[0] is not now:
        known = _replies[found.batch] = (now, now.replies(found.batch.z))
    return [known[1][place] for place in found.places]


def check_classifier(path: Path) -> str:
    """The model of a classifier in a file; refuses a file that is none."""
    from tadam.classify.classifier import FewShotClassifier

    try:
        return FewShotClassifier.load(path, device="cpu").model_name_ or ""
    except UserError as error:
        raise Refused(422, str(error).replace(str(path), "the file")) from None
