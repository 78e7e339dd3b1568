"""What the API says of a project: its state, and lists of photos."""

from collections import Counter, defaultdict
from typing import Any

from tadam.serve.live import LiveProject
from tadam.serve.stored_rows import Photo
from tadam.serve.taught import UNCERTAIN, Taught

#: Photos of a class that its box shows.
_COVERS = 4
SHOWS = ("all", "unlabelled", "uncertain", "suspected", "unknown", "class")
SORTS = ("newest", "uncertain", "class", "name")


def state_of(live: LiveProject) -> dict[str, Any]:
    """Everything but the photos."""
    project, now = live.project, live.taught
    photos, boxes = project.live_photos(), project.live_boxes()
    counts = Counter(photo.class_id for photo in photos)
    covers: defaultdict[int | None, list[int]] = defaultdict(list)
    for photo in reversed(photos):
        if len(covers[photo.class_id]) < _COVERS:
            covers[photo.class_id].append(photo.id)
    classes: list[dict[str, Any]] = [
        {
            "id": box.id,
            "name": box.name,
            "count": counts[box.id],
            "accuracy": now.class_accuracy.get(box.id),
            "covers": covers[box.id],
        }
        for box in boxes
    ]
    if live.is_read_only and now.classifier is not None:
        shots = now.classifier.shots_.tolist()
        classes = [
            {"id": number, "name": str(name), "count": count, "accuracy": None}
            for number, name, count in zip(
                now.class_ids, now.classifier.classes_.tolist(), shots, strict=True
            )
        ]
    undo, redo = project.actions()
    with project.database.lock:
        curve = project.database.connection.execute(
            "SELECT images, accuracy FROM accuracy ORDER BY images"
        ).fetchall()
    shown: Counter[str] = Counter()
    for photo in photos:
        shown.update(_kinds(photo, now))
    return {
        "project": {
            "id": live.id,
            "name": project.name,
            "model": project.model,
            "read_only": live.is_read_only,
        },
        "revision": project.revision,
        "classes": classes,
        "counts": {kind: shown[kind] for kind in SHOWS if kind != "class"},
        "accuracy": now.accuracy,
        "accuracy_history": [{"images": n, "accuracy": a} for n, a in curve],
        "undo": {"undo": undo, "redo": redo},
        "busy": live.busy and live.busy._asdict(),
        "problems": [{"name": name, "detail": detail} for name, detail in live.problems],
    }


def _kinds(photo: Photo, now: Taught) -> list[str]:
    """The lists that a photo is in."""
    guess = now.guesses.get(photo.id)
    found = ["all"]
    if photo.class_id is None:
        found.append("unlabelled")
        if guess and guess.confidence < UNCERTAIN:
            found.append("uncertain")
    if guess and guess.suspected and photo.class_id is not None:
        found.append("suspected")
    if guess and guess.unknown and photo.class_id is None:
        found.append("unknown")
    return found


def photo_item(photo: Photo, now: Taught) -> dict[str, Any]:
    """A photo as the API shows it."""
    guess = now.guesses.get(photo.id)
    return {
        "id": photo.id,
        "name": photo.name,
        "class_id": photo.class_id,
        "guess": guess and guess.class_id,
        "confidence": guess and guess.confidence,
        "unknown": bool(guess and guess.unknown and photo.class_id is None),
        "suspected": bool(guess and guess.suspected and photo.class_id is not None),
        "added": photo.added,
        "width": photo.width,
        "height": photo.height,
    }


def listed(
    live: LiveProject,
    show: str,
    sort: str,
    class_id: int | None = None,
    truth: int | None = None,
    answer: int | None = None,
) -> list[Photo]:
    """The photos of a list, in order.

    Args:
        live: The project.
        show: Which list.
        sort: Which order.
        class_id: The class, if `show` is class.
        truth: Only those with this label.
        answer: Only those with this guess.
    """
    now = live.taught
    found = [p for p in live.project.live_photos() if show == "class" or show in _kinds(p, now)]
    if show == "class" or class_id is not None:
        found = [p for p in found if p.class_id == class_id]
    if truth is not None:
        found = [p for p in found if p.class_id == truth]
    if answer is not None:
        found = [p for p in found if (g := now.guesses.get(p.id)) and g.class_id == answer]
    names = {box.id: box.name for box in live.project.live_boxes()}

    def unsure(photo: Photo) -> float:
        guess = now.guesses.get(photo.id)
        return guess.confidence if guess else 2.0

    if sort == "newest":
        found.sort(key=lambda p: -p.id)
    elif sort == "name":
        found.sort(key=lambda p: (p.name, p.id))
    elif sort == "class":
        found.sort(key=lambda p: (p.class_id is None, names.get(p.class_id or -1, ""), p.id))
    else:
        found.sort(key=lambda p: (p.class_id is not None, unsure(p), p.id))
    return found
