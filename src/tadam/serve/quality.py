"""How good a project's classifier is, and what would make it better.

What takes long is kept until it changes: copies depend on the photos alone, not on their labels.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tadam.classify.duplicates import Fingerprint, duplicate_groups
from tadam.classify.predictions import Prediction
from tadam.classify.suggest import suggest
from tadam.serve.live import LiveProject
from tadam.serve.stored_rows import Photo
from tadam.serve.taught import Taught, metric_answers

#: Classes with fewer photos than this are called too few; photos that are suggested.
_FEW, _SUGGESTED = 5, 20


def quality_of(live: LiveProject) -> dict[str, Any]:
    """How good the classifier is, and what would make it better."""
    now, project = live.current(), live.project
    photos = project.live_photos()
    ids = tuple(photo.id for photo in photos)
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
    suggested = live.kept("suggestions", (now, ids), lambda: _suggestions(live, now, photos))
    copies = live.kept("copies", (project.model, ids), lambda: _duplicates(live, photos))
    return {
        "revision": project.revision,
        "accuracy": now.accuracy,
        "classes": classes,
        "confusion": now.confusion,
        "suggestions": suggested,
        "suspected": suspected,
        "duplicates": copies,
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
    known = live.embeddings()
    rest = [number for number in rest if number in known]
    z = np.stack([known[number] for number in rest])
    probabilities, strangeness = metric_answers(now.classifier, z)
    predictions = [
        Prediction(str(n), "", p, float(s), False, row)
        for n, p, s, row in zip(rest, probabilities, strangeness, z, strict=True)
    ]
    return [rest[found.row] for found in suggest(now.classifier, predictions, _SUGGESTED)]


def _duplicates(live: LiveProject, photos: Sequence[Photo]) -> list[list[int]]:
    """Photos that are the same, scaled or mirrored say."""
    wanted = {photo.id for photo in photos}
    known = live.embeddings()
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
