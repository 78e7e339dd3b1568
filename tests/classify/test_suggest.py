"""What to label next: uncertain and typical photos first, and no two that say the same."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tadam.classify.predictions import Prediction
from tadam.classify.suggest import spread_out, suggest, typicality
from tadam.errors import UserError

#: As much of a fitted classifier as choosing needs.
CLASSIFIER: Any = SimpleNamespace(
    classes_=np.array(["a", "b"]), standardised=lambda z: z - z.mean(axis=0)
)


def answer(path: str, p: float, axis: int, seed: int) -> Prediction:
    """An image that is class a with probability p, in the direction of an axis, or nearly."""
    embedding = np.random.default_rng(seed).random(12).astype(np.float32)
    embedding[axis] += 20
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


def test_a_typical_point_is_like_its_nearest_others() -> None:
    z = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    for i, found in enumerate(typicality(z)):
        others = sorted(float(unit[i] @ unit[j]) for j in range(40) if j != i)
        assert found == pytest.approx(max(np.mean(others[-5:]), 0.01), abs=1e-5)
    assert typicality(z[:1]).tolist() == [0.01]


def test_uncertain_typical_photos_come_first_one_of_each_kind() -> None:
    photos = [answer(f"unsure {i}", 0.51, axis=0, seed=i) for i in range(6)]
    photos += [answer(f"elsewhere {i}", 0.52, axis=4, seed=10 + i) for i in range(6)]
    photos += [answer(f"sure {i}", 0.99, axis=8, seed=20 + i) for i in range(6)]
    photos.append(answer("odd", 0.5, axis=11, seed=30))
    found = suggest(CLASSIFIER, photos, 19)
    assert {str(s.path).split()[0] for s in found[:2]} == {"unsure", "elsewhere"}
    assert (found[0].guess, found[0].second) == ("a", "b")
    assert found[0].path == photos[found[0].row].path
    assert found[0].confidence + found[0].second_confidence == pytest.approx(1)
    assert sorted(s.row for s in found) == list(range(19))
    assert len(suggest(CLASSIFIER, photos, 2)) == 2
    assert suggest(CLASSIFIER, [], 2) == []
    with pytest.raises(UserError, match="at least 1"):
        suggest(CLASSIFIER, photos, 0)
