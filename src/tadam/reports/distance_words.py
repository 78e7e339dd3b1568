"""How far an image is from every class, in words: compared with the labelled photos themselves."""

from typing import Any

import numpy as np
import numpy.typing as npt

#: Share of the labelled photos that are less odd than an image -> what the image is.
_WORDS = (
    (0.5, "typical"),
    (0.8, "fairly typical"),
    (0.95, "a little unusual"),
    (1.0, "very unusual"),
)


def distance_words(score: float, usual: npt.NDArray[Any]) -> str:
    """What a score of "none of these" means.

    Args:
        score: Of an image; higher is odder.
        usual: Scores of the labelled photos, each as if it were new; NaN where unknown.
    """
    known = usual[np.isfinite(usual)]
    if not len(known):
        return "not like anything labelled"
    below = float((known < score).mean())
    return next(
        (words for share, words in _WORDS if below < share), "odder than any labelled photo"
    )


def is_unusual(words: str) -> bool:
    """Whether it is worth saying without being asked."""
    return words not in (_WORDS[0][1], _WORDS[1][1])
