"""A look at labelled photos before anything relies on them: what is confused, wrong, twice or few.

Every photo is classified as if it had not been in the support set. What comes out is what new
photos of the same kind would meet, and it shows labels that the other photos contradict.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tadam.classify.classifier import FewShotClassifier
from tadam.classify.duplicates import Fingerprint, duplicate_groups, fingerprints
from tadam.classify.learning_curve import CurvePoint, Trend, learning_curve, trend
from tadam.classify.metric_fit import LeftOutAnswers
from tadam.classify.reading import ImageSource, name_of
from tadam.system.progress import Progress

#: Classes with fewer photos than this are called too few.
FEW = 5
#: A label is doubted if another class is so many times as probable.
_DOUBT = 5.0
#: A photo may not belong if it is farther from its class than the median by so many standard
#: deviations, which are estimated from the median deviation. The strangeness of "none of these"
#: would not do: its limit is such that one photo in twenty is beyond it, however clean the photos.
_DEVIATIONS, _NORMAL = 2.0, 1.4826


@dataclass(frozen=True)
class ClassCheck:
    """One class: its photos, the share that the others would get right, where the rest goes."""

    name: str
    photos: int
    accuracy: float | None
    mistaken_for: str | None


@dataclass(frozen=True)
class Confusion:
    """Two classes, and how many photos of one look like the other, either way."""

    classes: tuple[str, str]
    photos: int


@dataclass(frozen=True)
class DoubtfulPhoto:
    """A photo whose label the others contradict: `odds` times as probably something else."""

    path: str
    label: str
    looks_like: str
    odds: float


@dataclass(frozen=True)
class OddPhoto:
    """A photo unlike the others of its class, by so many standard deviations."""

    path: str
    label: str
    deviations: float


@dataclass(frozen=True)
class Copies:
    """Photos that are the same; `exact` if their files are, byte for byte.

    Attributes:
        paths: Where they are.
        labels: The class of each; None for one of the test photos.
        exact: Whether the files are identical.
    """

    paths: list[str]
    labels: list[str | None]
    exact: bool

    @property
    def across(self) -> str | None:
        """What they should not be in both of: different classes, or training and test."""
        if None in self.labels and set(self.labels) != {None}:
            return "training and test"
        return "classes" if len(set(self.labels)) > 1 else None


@dataclass(frozen=True)
class Check:
    """What a look at labelled photos found; accuracies are fractions.

    Attributes:
        accuracy: Share of photos that the others classify correctly; None if all are alone.
        images: Number of photos.
        classes: Every class, worst first.
        confused: Pairs of classes, most confused first.
        mislabelled: Photos that look mislabelled, most doubtful first.
        odd: Photos unlike the others of their class, oddest first.
        copies: Groups of photos that are the same, those across classes or test first.
        few: Names of classes with fewer than `FEW` photos.
        curve: Accuracy with fewer photos, the mean over classes.
        doubled: Where that leads with twice as many; None if there are too few to tell.
        skipped: A sentence for each photo that could not be read.
        thumbnails: Small JPEGs by path, if asked for.
    """

    accuracy: float | None
    images: int
    classes: list[ClassCheck]
    confused: list[Confusion]
    mislabelled: list[DoubtfulPhoto]
    odd: list[OddPhoto]
    copies: list[Copies]
    few: list[str]
    curve: list[CurvePoint]
    doubled: Trend | None
    skipped: list[str] = field(default_factory=list)
    thumbnails: dict[str, bytes] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        found = asdict(self)
        del found["thumbnails"]
        for copies, group in zip(found["copies"], self.copies, strict=True):
            copies["across"] = group.across
        return found


def check_photos(
    classifier: FewShotClassifier,
    images: Sequence[ImageSource],
    labels: Sequence[Hashable],
    test: Sequence[ImageSource] = (),
    *,
    thumbnails: bool = False,
    progress: Progress | None = None,
    problems: list[str] | None = None,
) -> Check:
    """Fits a classifier to labelled photos and says what it found.

    Args:
        classifier: Not fitted yet; it is afterwards.
        images: The labelled photos.
        labels: The class of each.
        test: Photos that should not be among them.
        thumbnails: Whether to keep small pictures for a page.
        progress: Called with (steps done, total steps) of the reading.
        problems: Gets a sentence for each photo that cannot be read; without it, that is an error.
    """
    everything = [*images, *test]
    total = 2 * len(everything)

    def reading(done: int, _: int) -> None:
        if progress:
            progress(done, total)

    def embedding(done: int, _: int) -> None:
        if progress:
            progress(len(everything) + done, total)

    found = fingerprints(everything, thumbnails, reading, problems)
    names = [name_of(image, number) for number, image in enumerate(everything)]
    kept = [i for i in range(len(images)) if found[i] is not None]
    kept_test = [i for i in range(len(images), len(everything)) if found[i] is not None]
    classifier.fit([images[i] for i in kept], [labels[i] for i in kept], progress=embedding)
    classifier.require_embeddings("check photos")
    z = classifier.support_embeddings_
    if kept_test:
        others = classifier.classify([everything[i] for i in kept_test])
        z = np.concatenate([z, np.stack([p.embedding for p in others])])
    rows = [*kept, *kept_test]
    prints = [p for i in rows if (p := found[i]) is not None]
    own = [str(labels[i]) for i in kept]
    groups = duplicate_groups(prints, z)
    kept_names = [names[i] for i in rows]
    copies = _copies(groups, prints, kept_names, [*own, *[None] * len(kept_test)])
    small = {n: p.thumbnail for n, p in zip(kept_names, prints, strict=True) if p.thumbnail}
    return _checked(classifier, kept_names[: len(kept)], copies, problems or [], small)


def _checked(
    classifier: FewShotClassifier,
    paths: list[str],
    copies: list[Copies],
    problems: list[str],
    thumbnails: dict[str, bytes],
) -> Check:
    """What follows from the answers for the photos that were left out."""
    names = [str(name) for name in classifier.classes_.tolist()]
    answers = classifier.leave_one_out()
    shown = np.isfinite(answers.probabilities).all(axis=1)
    best = np.where(shown, np.nan_to_num(answers.probabilities).argmax(axis=1), -1)
    confusion = np.zeros((len(names), len(names)), np.int64)
    np.add.at(confusion, (answers.labels[shown], best[shown]), 1)
    classes = [
        ClassCheck(
            name, photos, float(row[k] / row.sum()) if row.sum() else None, _most(row, k, names)
        )
        for k, (name, photos, row) in enumerate(
            zip(names, classifier.shots_.tolist(), confusion, strict=True)
        )
    ]
    pairs = Counter(
        {
            (names[i], names[j]): int(confusion[i, j] + confusion[j, i])
            for i in range(len(names))
            for j in range(i)
        }
    )
    curve = learning_curve(classifier)
    return Check(
        accuracy=float(np.trace(confusion) / shown.sum()) if shown.any() else None,
        images=len(paths),
        classes=sorted(classes, key=lambda c: 2.0 if c.accuracy is None else c.accuracy),
        confused=[
            Confusion((two, one), count) for (one, two), count in pairs.most_common() if count
        ],
        mislabelled=doubtful_photos(answers, paths, names),
        odd=_odd(classifier, paths, names),
        copies=copies,
        few=[c.name for c in classes if c.photos < FEW],
        curve=curve,
        doubled=trend(curve),
        skipped=list(problems),
        thumbnails=thumbnails,
    )


def _most(row: "np.ndarray[Any, Any]", own: int, names: list[str]) -> str | None:
    """The class that most of the others are taken for."""
    wrong = row.copy()
    wrong[own] = 0
    return names[int(wrong.argmax())] if wrong.any() else None


def doubtful_photos(
    answers: LeftOutAnswers, paths: list[str], names: list[str]
) -> list[DoubtfulPhoto]:
    """Photos that the others contradict, the most doubtful first."""
    found = []
    for path, label, p in zip(paths, answers.labels, answers.probabilities, strict=True):
        odds = float(p.max() / max(p[label], 1e-12))
        if odds >= _DOUBT:
            found.append(DoubtfulPhoto(path, names[label], names[int(p.argmax())], odds))
    return sorted(found, key=lambda photo: -photo.odds)


def _odd(classifier: FewShotClassifier, paths: list[str], names: list[str]) -> list[OddPhoto]:
    """Photos far from the mean of the others of their class, the farthest first."""
    labels, shots = classifier.support_labels_, classifier.shots_
    y = classifier.standardised(classifier.support_embeddings_).astype(np.float64)
    sums = np.zeros((len(names), y.shape[1]))
    np.add.at(sums, labels, y)
    others = sums[labels] - y  # their direction is all that counts
    lengths = np.linalg.norm(y, axis=1) * np.linalg.norm(others, axis=1)
    apart = 1 - (y * others).sum(axis=1) / np.maximum(lengths, 1e-12)
    apart[shots[labels] < 2] = np.nan
    if np.isnan(apart).all():
        return []
    middle = np.nanmedian(apart)
    spread = max(_NORMAL * float(np.nanmedian(np.abs(apart - middle))), 1e-12)
    found = [
        OddPhoto(path, names[label], float((distance - middle) / spread))
        for path, label, distance in zip(paths, labels, apart, strict=True)
        if distance > middle + _DEVIATIONS * spread
    ]
    return sorted(found, key=lambda photo: -photo.deviations)


def _copies(
    groups: list[list[int]],
    prints: Sequence[Fingerprint],
    paths: Sequence[str],
    labels: Sequence[str | None],
) -> list[Copies]:
    found = [
        Copies(
            [paths[i] for i in some],
            [labels[i] for i in some],
            len({prints[i].digest for i in some}) == 1,
        )
        for some in groups
    ]
    return sorted(found, key=lambda copies: copies.across is None)
