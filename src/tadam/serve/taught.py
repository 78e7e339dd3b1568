"""What a project has learnt at one moment: its classifier, and the answer for every photo."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from tadam.classify.check import doubtful_photos
from tadam.classify.classifier import FewShotClassifier
from tadam.classify.embedded import Eyes
from tadam.system.threads import few_threads

#: An answer with less confidence than this is uncertain.
UNCERTAIN = 0.7
#: Labelled photos that are given as the reason for an answer.
_NEAREST = 5


class Reply(NamedTuple):
    """What a classifier says of a new photo.

    Attributes:
        probabilities: (K,).
        strangeness: 0 is typical, 1 the limit.
        nearest: Labelled photos most like it: id, class and cosine, the most alike first.
    """

    probabilities: npt.NDArray[np.float32]
    strangeness: float
    nearest: list[tuple[int, int, float]]


@dataclass(frozen=True)
class PhotoGuess:
    """What a classifier says of one photo; of a labelled one, as if it had not seen it."""

    class_id: int
    confidence: float
    strangeness: float
    unknown: bool
    suspected: bool


@dataclass(frozen=True)
class Taught:
    """A classifier and its answers.

    Attributes:
        classifier: None while there are fewer than two classes with photos.
        class_ids: Ids of the classes, in the order of the classifier's.
        eyes: What embeds new photos for it.
        support_ids: Ids of the labelled photos, in the order of the classifier's.
        guesses: For each photo.
        accuracy: Share of labelled photos that the others get right; None if none can be left out.
        class_accuracy: The same by class id.
        confusion: Labelled photos by label and by answer, in the order of `class_ids`.
        odds: How many times as probable another class is, for suspected photos.
    """

    classifier: FewShotClassifier | None = None
    class_ids: list[int] = field(default_factory=list)
    eyes: Eyes | None = None
    support_ids: list[int] = field(default_factory=list)
    guesses: dict[int, PhotoGuess] = field(default_factory=dict)
    accuracy: float | None = None
    class_accuracy: dict[int, float] = field(default_factory=dict)
    confusion: list[list[int]] = field(default_factory=list)
    odds: dict[int, float] = field(default_factory=dict)

    def replies(self, z: npt.NDArray[np.float32]) -> list[Reply]:
        """What the classifier says of embeddings, (n, D)."""
        assert self.classifier is not None
        with few_threads(len(z)):
            probabilities, strangeness = metric_answers(self.classifier, z)
            y = torch.from_numpy(_unit(self.classifier.standardised(z)))
            alike = (y @ torch.from_numpy(self._unit_support).T).numpy()
        best = np.argsort(-alike, axis=1, kind="stable")[:, :_NEAREST]
        labels = self.classifier.support_labels_
        nearest = [
            [(self.support_ids[i], self.class_ids[labels[i]], float(row[i])) for i in places]
            for row, places in zip(alike, best.tolist(), strict=True)
        ]
        strange = strangeness.tolist()
        return [Reply(*each) for each in zip(probabilities, strange, nearest, strict=True)]

    @property
    def _unit_support(self) -> npt.NDArray[np.float32]:
        cached = self.__dict__.get("_support")
        if cached is None:
            assert self.classifier is not None
            cached = _unit(self.classifier.standardised(self.classifier.support_embeddings_))
            self.__dict__["_support"] = cached
        return np.asarray(cached)


def from_file(classifier: FewShotClassifier, pool: ThreadPoolExecutor | None) -> Taught:
    """A classifier that was read, whose classes and photos have no ids but their places."""
    return Taught(
        classifier,
        list(range(1, len(classifier.classes_) + 1)),
        Eyes(classifier.predictor_, pool),
        list(range(1, len(classifier.support_labels_) + 1)),
    )


@torch.no_grad()
def metric_answers(
    classifier: FewShotClassifier, z: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Probabilities (n, K) and strangeness (n,) of embeddings, (n, D)."""
    metric = classifier.predictor_.metric
    rows = torch.from_numpy(z).to(metric.weight.device)
    scores = metric.scores(rows)
    answers = metric.probabilities_of(scores), metric.strangeness_of(scores)
    return answers[0].cpu().numpy(), answers[1].cpu().numpy()


def _unit(y: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    lengths = np.linalg.norm(y, axis=1, keepdims=True)
    return np.asarray(y / np.maximum(lengths, 1e-12), np.float32)


def taught(
    classifier: FewShotClassifier,
    class_ids: Sequence[int],
    eyes: Eyes,
    support_ids: Sequence[int],
    others: Sequence[int],
    z: npt.NDArray[np.float32],
) -> Taught:
    """Answers for all photos of a project.

    Args:
        classifier: Made of the labelled ones.
        class_ids: Of its classes.
        eyes: What embeds new photos for it.
        support_ids: The labelled photos.
        others: The rest.
        z: Their embeddings, (n, D).
    """
    left_out = classifier.leave_one_out()
    names = [str(name) for name in classifier.classes_.tolist()]
    doubted = doubtful_photos(left_out, [str(i) for i in support_ids], names)
    odds = {int(photo.path): photo.odds for photo in doubted}
    shown = np.isfinite(left_out.probabilities).all(axis=1)
    own, strange = metric_answers(classifier, classifier.support_embeddings_)
    own[shown], strange[shown] = left_out.probabilities[shown], left_out.strangeness[shown]
    best = own.argmax(axis=1)
    confusion: Any = np.zeros((len(names), len(names)), np.int64)
    np.add.at(confusion, (left_out.labels[shown], best[shown]), 1)
    guesses = {
        number: PhotoGuess(class_ids[k], float(p[k]), float(s), False, number in odds)
        for number, k, p, s in zip(support_ids, best, own, strange, strict=True)
    }
    if len(others):
        probabilities, strangeness = metric_answers(classifier, z)
        limit = classifier.reject_threshold_
        for number, p, s in zip(others, probabilities, strangeness, strict=True):
            k = int(p.argmax())
            guesses[number] = PhotoGuess(
                class_ids[k], float(p[k]), float(s), bool(s > limit), False
            )
    rows = confusion.sum(axis=1)
    return Taught(
        classifier,
        list(class_ids),
        eyes,
        list(support_ids),
        guesses,
        float(np.trace(confusion) / shown.sum()) if shown.any() else None,
        {class_ids[k]: float(confusion[k, k] / rows[k]) for k in range(len(names)) if rows[k]},
        confusion.tolist(),
        odds,
    )
