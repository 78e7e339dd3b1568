"""What to label next: photos it is unsure of, like many others, and unlike each other."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tadam.classify.classifier import FewShotClassifier
from tadam.classify.predictions import Prediction
from tadam.errors import UserError

#: A photo is typical if it is like its nearest so many; of more photos, so many are compared with.
_NEIGHBOURS, _COMPARED = 5, 4096
#: The least that typicality counts, and photos that are compared at once.
_LEAST, _ROWS = 0.01, 512


@dataclass(frozen=True)
class Suggestion:
    """A photo whose label would teach much.

    Attributes:
        path: Its file; None for an image in memory.
        row: Its place among the photos that were asked about.
        guess: The most probable class.
        confidence: Its probability.
        second: The next class.
        second_confidence: Its probability.
    """

    path: str | None
    row: int
    guess: str
    confidence: float
    second: str
    second_confidence: float

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        return asdict(self)


def suggest(
    classifier: FewShotClassifier, predictions: Sequence[Prediction], count: int = 20
) -> list[Suggestion]:
    """The photos to label, the most useful first; all if there are fewer.

    One after another, it takes the photo with the largest product of three numbers: how close the
    two most probable classes are, how much the photo is like others, because what is learnt from an
    odd one helps with few, and how far it is from those already taken.

    Args:
        classifier: A fitted one.
        predictions: What its `classify` says of photos without labels.
        count: How many to choose.
    """
    if count < 1:
        raise UserError(f"the number of photos to suggest must be at least 1, got {count}")
    if not predictions:
        return []
    names = [str(label) for label in classifier.classes_.tolist()]
    z = classifier.standardised(np.stack([p.embedding for p in predictions]))
    ranked = [p.most_probable(2) for p in predictions]
    gaps = [
        p.probabilities[a] - p.probabilities[b]
        for p, (a, b) in zip(predictions, ranked, strict=True)
    ]
    chosen = spread_out(z, (1 - np.array(gaps, np.float64)) * typicality(z), count)
    return [
        Suggestion(
            predictions[i].path,
            i,
            names[ranked[i][0]],
            float(predictions[i].probabilities[ranked[i][0]]),
            names[ranked[i][1]],
            float(predictions[i].probabilities[ranked[i][1]]),
        )
        for i in chosen
    ]


def typicality(z: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Mean cosine with the nearest other points, (N,); z is (N, D)."""
    unit, near = _unit(z), np.full(len(z), _LEAST)
    others = np.linspace(0, len(z) - 1, min(len(z), _COMPARED)).astype(int)
    count = min(_NEIGHBOURS, len(others) - 1)
    for start in range(0, len(z) if count else 0, _ROWS):
        rows = np.arange(start, min(start + _ROWS, len(z)))
        alike = unit[rows] @ unit[others].T
        alike[rows[:, None] == others] = -1.0
        nearest = np.partition(alike, -count, axis=1)[:, -count:]
        near[rows] = np.maximum(nearest.mean(axis=1), _LEAST)
    return near


def _unit(z: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    lengths = np.linalg.norm(z, axis=1, keepdims=True)
    return np.asarray(z / np.maximum(lengths, 1e-12), np.float32)


def spread_out(
    z: npt.NDArray[np.float32], weights: npt.NDArray[np.float64], count: int
) -> list[int]:
    """Greedily chooses points of large weight that point in different directions.

    Args:
        z: (N, D).
        weights: (N,), at least 0.
        count: How many to choose.
    """
    unit = _unit(z)
    apart = np.full(len(z), 2.0)  # the largest cosine distance, 1 - cos
    left = np.ones(len(z), bool)
    chosen: list[int] = []
    for _ in range(min(count, len(z))):
        best = int(np.where(left, weights * apart, -1.0).argmax())
        chosen.append(best)
        left[best] = False
        apart = np.minimum(apart, np.maximum(1 - unit @ unit[best], 0.0))
    return chosen
