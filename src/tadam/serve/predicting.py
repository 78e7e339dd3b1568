"""Photos in, answers out, as the API gives them."""

import asyncio
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

#: A photo in a question may have this many bytes; a project takes larger ones.
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
    named = [(photo_name(file.name), _encoded(file)) for file in files]
    future = queue.submit(now.eyes, [photo for _, photo in named])
    found = await asyncio.wrap_future(future)
    names = [name for name, _ in named]
    return {
        "model": model,
        "revision": revision,
        "answers": answer_items(now, found, names),
        "problems": [{"name": names[row], "detail": s} for row, s in found.problems.items()],
    }


def _encoded(file: Incoming) -> Encoded:
    """A photo in memory: a batch outlives nothing, but several threads may read at once."""
    with file.open() as content:
        data = content.read(_MOST_BYTES + 1)
    name = photo_name(file.name)
    if len(data) > _MOST_BYTES:
        raise Refused(413, f"{name} is larger than {_MOST_BYTES // 2**20} MB: scale it down first")
    return Encoded(name, lambda: data)


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
