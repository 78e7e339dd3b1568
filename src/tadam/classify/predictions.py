"""What a classifier says of one image: the row of a table, the tile of a report."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Prediction:
    """The answer for one image.

    Attributes:
        path: The image's file; None for one that was in memory.
        label: The answer: an element of `classes_`, or the label of "none of these".
        probabilities: (K,), in the order of `classes_`, whether or not the image is rejected.
        distance: Cosine distance, 0 to 4, to the nearest prototype.
        unknown: Whether the image was rejected: too far from every prototype.
        embedding: (D,), in the space of the prototypes.
        thumbnail: A small JPEG of the image; None unless asked for.
    """

    path: str | None
    label: Hashable
    probabilities: npt.NDArray[np.float32]
    distance: float
    unknown: bool
    embedding: npt.NDArray[np.float32]
    thumbnail: bytes | None = None

    @property
    def nearest(self) -> int:
        """Number of the most probable class."""
        return int(self.probabilities.argmax())

    @property
    def confidence(self) -> float:
        """Probability of the most probable class."""
        return float(self.probabilities.max())
