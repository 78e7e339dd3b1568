"""What more photos would bring: accuracy with fewer of them, and where that trend leads."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from tadam.classify.fitted_support import FittedSupport
from tadam.system.progress import Progress

#: Numbers of photos that are tried, besides all but one.
_SIZES = 4
#: Fewer photos of most classes than this show no trend.
_LEAST_PHOTOS = 4
#: Random draws of each number: many if there are few photos, and the other way round.
_DRAWS, _PHOTOS_DRAWN = (3, 12), 4000
#: Power laws that are fitted to see how uncertain the trend is; its interval leaves out a tenth of
#: them at each end.
_RESAMPLED, _TAIL = 400, 0.1


@dataclass(frozen=True)
class CurvePoint:
    """Accuracy with so many photos of a class, the mean over classes.

    Attributes:
        photos: Of each class that has as many.
        accuracy: Share of other photos classified correctly.
        error: Standard error of that.
    """

    photos: int
    accuracy: float
    error: float


@dataclass(frozen=True)
class Trend:
    """Where the curve leads if it goes on as a power law.

    Attributes:
        photos: Twice as many as now.
        accuracy: With so many.
        low: With the photos at hand, nine trends in ten lead higher.
        high: Nine in ten lead lower.
    """

    photos: int
    accuracy: float
    low: float
    high: float


def learning_curve(
    classifier: FittedSupport, seed: int = 0, progress: Progress | None = None
) -> list[CurvePoint]:
    """Accuracy with fewer photos, then with all but one; empty if there are too few to tell.

    Args:
        classifier: A fitted one.
        seed: Chooses the photos.
        progress: Called with (draws done, total draws).
    """
    shots, labels = classifier.shots_, classifier.support_labels_
    typical = int(np.median(shots))
    if typical < _LEAST_PHOTOS:
        return []
    sizes = np.unique(np.geomspace(1, max(2, typical // 2), _SIZES).round().astype(int)).tolist()
    draws = int(np.clip(_PHOTOS_DRAWN // len(labels), *_DRAWS))
    points = []
    for number, size in enumerate(sizes):
        random = np.random.default_rng([seed, size])
        accuracies = []
        for draw in range(draws):
            rows = _drawn(labels, shots, size, random)
            right = _right(classifier, rows)
            tested = np.setdiff1d(np.arange(len(labels)), rows)
            accuracies.append(_mean_over_classes(right[tested], labels[tested]))
            if progress:
                progress(number * draws + draw + 1, len(sizes) * draws)
        mean = float(np.mean(accuracies))
        # Draws share most of their photos: averaging them does not get below the error of one set.
        error = np.hypot(np.std(accuracies) / draws**0.5, _error(mean, len(tested)))
        points.append(CurvePoint(size, mean, float(error)))
    left_out = classifier.leave_one_out()
    shown = shots[labels] > 1
    right = left_out.probabilities[shown].argmax(axis=1) == labels[shown]
    mean = _mean_over_classes(right, labels[shown])
    return [*points, CurvePoint(typical - 1, mean, _error(mean, int(shown.sum())))]


def _drawn(
    labels: npt.NDArray[np.int64],
    shots: npt.NDArray[np.int64],
    size: int,
    random: np.random.Generator,
) -> npt.NDArray[np.int64]:
    """Random photos of each class: `size`, but one of two or more is left to be tested on."""
    chosen = [
        random.permutation(np.flatnonzero(labels == k))[: min(size, max(1, count - 1))]
        for k, count in enumerate(shots)
    ]
    return np.sort(np.concatenate(chosen))


@torch.no_grad()
def _right(classifier: FittedSupport, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of the photos are classified correctly by those in `rows`, (N,)."""
    metric = classifier.subset(rows).predictor_.metric
    z = torch.from_numpy(classifier.support_embeddings_).to(metric.weight.device)
    best = metric.probabilities(z).argmax(dim=1)
    return np.asarray(best.cpu().numpy() == classifier.support_labels_)


def _mean_over_classes(right: npt.NDArray[np.bool_], labels: npt.NDArray[np.int64]) -> float:
    return float(np.mean([right[labels == k].mean() for k in np.unique(labels)]))


def _error(share: float, count: int) -> float:
    """Standard error of a share of `count` photos, as if one more were right and one more wrong."""
    smoothed = (share * count + 1) / (count + 2)
    return float((smoothed * (1 - smoothed) / count) ** 0.5)


def trend(points: list[CurvePoint], seed: int = 0) -> Trend | None:
    """Where the points lead with twice as many photos: mistakes fall as a power of their number.

    None for fewer than three points.
    """
    if len(points) < 3:
        return None
    photos = 2 * (points[-1].photos + 1)
    x = np.log([p.photos for p in points])
    mistakes = np.array([1 - p.accuracy for p in points])
    errors = np.array([p.error for p in points])
    dice = np.random.default_rng(seed).normal(size=(_RESAMPLED, len(points)))
    lowest = errors / 2  # no mistakes among few photos may well be a mistake among more
    ends = []
    for y in (mistakes, *(mistakes + errors * dice)):
        y = np.maximum(y, lowest)
        slope, start = np.polyfit(x, np.log(y), 1, w=y / errors)
        end = start + min(slope, 0.0) * np.log(photos)
        ends.append(float(1 - np.exp(min(end, 0.0))))
    low, high = np.quantile(ends[1:], [_TAIL, 1 - _TAIL])
    return Trend(photos, ends[0], float(low), float(high))
