"""How strange an image is, in words: 0 is typical of the classes, 1 the limit of "unknown"."""

#: Below so much strangeness an image is called this.
_WORDS = (
    (0.5, "typical"),
    (0.8, "fairly typical"),
    (1.0, "a little unusual"),
    (1.5, "very unusual"),
)
_BEYOND = "unlike anything labelled"


def strangeness_words(strangeness: float | None) -> str:
    """What a `Prediction.strangeness` means; nothing if the method does not say."""
    if strangeness is None:
        return ""
    return next((words for limit, words in _WORDS if strangeness < limit), _BEYOND)


def is_unusual(words: str) -> bool:
    """Whether it is worth saying without being asked."""
    return words not in ("", _WORDS[0][1], _WORDS[1][1])
