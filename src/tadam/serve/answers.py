"""What the API says of a project: its state, lists of photos, and how good its classifier is."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tadam.classify.duplicates import Fingerprint, duplicate_groups
from tadam.classify.predictions import Prediction
from tadam.classify.suggest import suggest
from tadam.serve.arrivals import stored_embeddings
from tadam.serve.live import LiveProject
from tadam.serve.project import Photo
from tadam.serve.taught import UNCERTAIN, Taught

#: Classes with fewer photos than this are called too few; photos that are suggested.
_FEW, _SUGGESTED = 5, 20
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


def quality_of(live: LiveProject) -> dict[str, Any]:
    """How good the classifier is, and what would make it better."""
    now, project = live.current(), live.project
    photos = project.live_photos()
    counts = Counter(photo.class_id for photo in photos)
    names = {box.id: box.name for box in project.live_boxes()}
    classes = [
        {
            "id": number,
            "name": names.get(number, ""),
            "count": counts[number],
            "accuracy": now.class_accuracy.get(number),
        }
        for number in now.class_ids
    ]
    suspected = [
        {"id": number, "class_id": label, "guess": guess.class_id, "why": why}
        for number, odds in now.odds.items()
        if (guess := now.guesses[number]) and (label := project.photos[number].class_id)
        for why in [_why(names, label, guess.class_id, odds)]
    ]
    return {
        "revision": project.revision,
        "accuracy": now.accuracy,
        "classes": classes,
        "confusion": now.confusion,
        "suggestions": _suggestions(live, now, photos),
        "suspected": suspected,
        "duplicates": _duplicates(live, photos),
        "advice": _advice(now, names, counts),
    }


def _why(names: dict[int, str], label: int, guess: int, odds: float) -> str:
    times = "over 1,000" if odds > 1000 else f"{odds:.0f}"
    return (
        f"The other photos say {names.get(guess, '?')}, {times} times as probable as "
        f"{names.get(label, '?')}."
    )


def _suggestions(live: LiveProject, now: Taught, photos: Sequence[Photo]) -> list[int]:
    """Photos without a label, those first whose label would teach most."""
    rest = [p.id for p in photos if p.class_id is None]
    if now.classifier is None or not rest:
        return []
    known = dict(zip(*stored_embeddings(live.project, live.project.model), strict=True))
    rest = [number for number in rest if number in known]
    z = np.stack([known[number] for number in rest])
    probabilities, strangeness = now.answers(z)
    predictions = [
        Prediction(str(n), "", p, float(s), False, row)
        for n, p, s, row in zip(rest, probabilities, strangeness, z, strict=True)
    ]
    return [rest[found.row] for found in suggest(now.classifier, predictions, _SUGGESTED)]


def _duplicates(live: LiveProject, photos: Sequence[Photo]) -> list[list[int]]:
    """Photos that are the same, scaled or mirrored say."""
    wanted = {photo.id for photo in photos}
    known = dict(zip(*stored_embeddings(live.project, live.project.model), strict=True))
    with live.project.database.lock:
        rows = live.project.database.connection.execute(
            "SELECT id, digest, gradients, mirrored FROM image ORDER BY id"
        ).fetchall()
    rows = [row for row in rows if row[0] in wanted and row[0] in known]
    if len(rows) < 2:
        return []
    prints = [
        Fingerprint(bytes.fromhex(d), np.frombuffer(g, np.uint8), np.frombuffer(m, np.uint8))
        for _, d, g, m in rows
    ]
    groups = duplicate_groups(prints, np.stack([known[row[0]] for row in rows]))
    return [[rows[i][0] for i in group] for group in groups]


def _advice(now: Taught, names: dict[int, str], counts: Counter[int | None]) -> list[str]:
    """What to do next, in sentences."""
    said = []
    few = [name for number, name in names.items() if counts[number] < _FEW]
    if len(names) < 2:
        said.append("Make at least two classes.")
    if few:
        said.append(f"Add photos to {_some(few)}: five or more of each work better.")
    pairs: Counter[tuple[int, int]] = Counter()
    for i, row in enumerate(now.confusion):
        for j, count in enumerate(row):
            if i != j and count:
                pairs[(min(i, j), max(i, j))] += count
    for (i, j), count in pairs.most_common(3):
        one, other = (names.get(now.class_ids[k], "?") for k in (i, j))
        times = "once" if count == 1 else f"{count} times"
        said.append(f"{one} and {other} are confused {times}: add photos that show the difference.")
    if now.odds:
        said.append("Look at the photos that seem mislabelled.")
    return said


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")
