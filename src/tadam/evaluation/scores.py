"""Scores of answers: accuracy with its interval, confusion, calibration."""

import numpy as np
import numpy.typing as npt

from tadam.data.episodes import Episode

#: Confidence bins of the calibration error.
_BINS = 15


def mean_and_interval(values: npt.NDArray[np.float64]) -> tuple[float, float | None]:
    """Mean over tasks and the half-width of its 95% interval (normal approximation)."""
    if len(values) < 2:
        return float(values.mean()), None
    return float(values.mean()), float(1.96 * values.std(ddof=1) / len(values) ** 0.5)


def accuracy_and_interval(
    probabilities: npt.NDArray[np.float32], episode: Episode
) -> tuple[float, float | None]:
    """Share of right answers, (T, Q, K), and the half-width of its 95% interval over tasks."""
    right = probabilities.argmax(axis=2) == episode.query_labels  # (T, Q)
    return mean_and_interval(right.mean(axis=1))


def difference_and_interval(
    ours: npt.NDArray[np.float32], theirs: npt.NDArray[np.float32], episode: Episode
) -> tuple[float, float | None]:
    """Accuracy of `ours` minus that of `theirs`, both (T, Q, K), and its interval, task by task."""
    ours_right, theirs_right = (p.argmax(axis=2) == episode.query_labels for p in (ours, theirs))
    return mean_and_interval(ours_right.mean(axis=1) - theirs_right.mean(axis=1))


def confusion_matrix(
    probabilities: npt.NDArray[np.float32], episode: Episode, classes: int
) -> npt.NDArray[np.int64]:
    """Counts of (true class, answer) over all tasks, with classes numbered as in the split."""
    true = np.take_along_axis(episode.classes, episode.query_labels, axis=1)
    answer = np.take_along_axis(episode.classes, probabilities.argmax(axis=2), axis=1)
    matrix = np.zeros((classes, classes), np.int64)
    np.add.at(matrix, (true.ravel(), answer.ravel()), 1)
    return matrix


def calibration_error(
    probabilities: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]
) -> float:
    """Expected calibration error: |confidence - accuracy| averaged over bins by size."""
    confidence = probabilities.max(axis=2).ravel().astype(np.float64)
    right = (probabilities.argmax(axis=2) == labels).ravel()
    bins = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    gaps = np.bincount(bins, weights=confidence - right, minlength=_BINS)
    return float(np.abs(gaps).sum() / len(right))
