"""What a classifier says of one image: the row of a table, the tile of a report."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tadam.classify.inference import Answers
from tadam.classify.reading import ImageSource, path_of


@dataclass(frozen=True)
class Prediction:
    """The answer for one image.

    Attributes:
        path: The image's file; None for one that was in memory.
        label: The answer: an element of `classes_`, or the label of "none of these".
        probabilities: (K,), in the order of `classes_`, whether or not the image is rejected.
        strangeness: How little it looks like any class: 0 is typical of them, 1 is the limit. None
            if the method does not say.
        unknown: Whether the image was rejected: too strange for every class.
        embedding: (D,), in the space of the prototypes.
        thumbnail: A small JPEG of the image; None unless asked for.
    """

    path: str | None
    label: Hashable
    probabilities: npt.NDArray[np.float32]
    strangeness: float | None
    unknown: bool
    embedding: npt.NDArray[np.float32]
    thumbnail: bytes | None = None

    def __repr__(self) -> str:
        """One line: the arrays are many numbers that nobody reads."""
        strangeness = None if self.strangeness is None else f"{self.strangeness:.3f}"
        return (
            f"Prediction(path={self.path!r}, label={self.label!r}, "
            f"confidence={self.confidence:.3f}, strangeness={strangeness}, "
            f"unknown={self.unknown})"
        )

    @property
    def nearest(self) -> int:
        """Number of the most probable class."""
        return int(self.probabilities.argmax())

    def most_probable(self, count: int) -> list[int]:
        """Numbers of the most probable classes, the likeliest first; all if there are fewer."""
        return [int(k) for k in np.argsort(-self.probabilities, kind="stable")[:count]]

    @property
    def confidence(self) -> float:
        """Probability of the most probable class."""
        return float(self.probabilities.max())


def predictions_from(
    answers: Answers,
    images: Sequence[ImageSource],
    classes: npt.NDArray[Any],
    strange: npt.NDArray[np.bool_],
    unknown: Hashable,
) -> list[Prediction]:
    """The answers for each image.

    Args:
        answers: For n of the images.
        images: All that were asked for.
        classes: The labels, (K,).
        strange: Which of the n are rejected, (n,).
        unknown: The label of those.
    """
    labels = classes[answers.best].tolist()
    return [
        Prediction(
            path=path_of(images[row]),
            label=unknown if strange[i] else labels[i],
            probabilities=answers.probabilities[i],
            strangeness=None if np.isnan(answers.strangeness[i]) else float(answers.strangeness[i]),
            unknown=bool(strange[i]),
            embedding=answers.embeddings[i],
            thumbnail=answers.thumbnails[i] if answers.thumbnails else None,
        )
        for i, row in enumerate(answers.rows)
    ]
