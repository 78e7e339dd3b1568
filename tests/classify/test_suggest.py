"""What to label next: uncertain photos first, and no two that say the same."""

import numpy as np
import pytest

from tadam import FewShotClassifier
from tadam.classify.predictions import Prediction
from tadam.classify.suggest import spread_out, suggest
from tadam.errors import UserError
from tadam.nn.backbones.pixels import RawPixels


@pytest.fixture(scope="module")
def classifier() -> FewShotClassifier:
    grey = [np.full((2, 2, 3), v, np.uint8) for v in (0, 40, 200, 250)]
    return FewShotClassifier(RawPixels(image_size=2)).fit(grey, ["a", "a", "b", "b"])


def answer(path: str, p: float, angle: float) -> Prediction:
    """An image that is class a with probability p, somewhere on a circle."""
    embedding = np.zeros(12, np.float32)
    embedding[:2] = 1000 * np.cos(angle), 1000 * np.sin(angle)
    return Prediction(path, "a", np.array([p, 1 - p], np.float32), 0.0, False, embedding)


def test_the_greedy_choice_is_that_of_brute_force() -> None:
    dice = np.random.default_rng(0)
    z, weights = dice.normal(size=(30, 4)).astype(np.float32), dice.random(30)
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    expected = [int(weights.argmax())]
    while len(expected) < 10:
        values = {
            i: weights[i] * min(1 - float(unit[i] @ unit[j]) for j in expected)
            for i in range(30)
            if i not in expected
        }
        expected.append(max(values, key=lambda i: values[i]))
    assert spread_out(z, weights, 10) == expected
    assert sorted(spread_out(z, weights, 99)) == list(range(30))


def test_uncertain_photos_come_first_and_copies_last(classifier: FewShotClassifier) -> None:
    photos = [
        answer("sure", 0.99, 2.0),
        answer("unsure", 0.51, 0.0),
        answer("its copy", 0.51, 0.0),
        answer("elsewhere", 0.55, np.pi),
    ]
    found = suggest(classifier, photos, 4)
    assert [s.path for s in found][:2] == ["unsure", "elsewhere"]
    assert found[3].path == "its copy"
    assert (found[0].guess, found[0].second) == ("a", "b")
    assert found[0].confidence == pytest.approx(0.51)
    assert found[0].second_confidence == pytest.approx(0.49)
    assert len(suggest(classifier, photos, 2)) == 2
    assert suggest(classifier, [], 2) == []
    with pytest.raises(UserError, match="at least 1"):
        suggest(classifier, photos, 0)
