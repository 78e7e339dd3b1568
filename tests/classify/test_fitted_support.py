"""Leave-one-out, subsets and removed classes are what fitting again would have given."""

from pathlib import Path

import numpy as np
import pytest

from tadam import FewShotClassifier
from tadam.data.decode import Pixels
from tadam.errors import UserError
from tadam.nn.backbones.pixels import RawPixels


def greys(seed: int, counts: list[int]) -> tuple[list[Pixels], list[str]]:
    dice = np.random.default_rng(seed)
    images, labels = [], []
    for k, count in enumerate(counts):
        for _ in range(count):
            pixels = dice.normal(60 * (k + 1), 25, (4, 4, 3))
            pixels[k % 4] += 40
            images.append(np.clip(pixels, 0, 255).astype(np.uint8))
            labels.append("abcdef"[k])
    return images, labels


def fitted(
    images: list[Pixels], labels: list[str], alpha: float | None = None
) -> FewShotClassifier:
    return FewShotClassifier(RawPixels(image_size=4), alpha=alpha).fit(images, labels)


def test_an_image_that_is_alone_has_no_answer() -> None:
    found = fitted(*greys(0, [3, 1])).leave_one_out()
    assert np.isnan(found.probabilities[3]).all()
    assert np.isnan(found.strangeness[3])
    assert np.isfinite(found.probabilities[:3]).all()


def test_a_subset_is_what_fitting_to_it_gives_and_leaves_the_whole_alone() -> None:
    images, labels = greys(1, [4, 4, 4])
    whole = fitted(images, labels)
    before = whole.predict_proba(images)
    rows = [0, 2, 3, 4, 5, 9]
    part = whole.subset(rows)
    again = fitted([images[i] for i in rows], [labels[i] for i in rows])
    np.testing.assert_allclose(part.predict_proba(images), again.predict_proba(images), atol=1e-6)
    np.testing.assert_array_equal(whole.predict_proba(images), before)
    assert part.predictor_.network is whole.predictor_.network


def test_a_removed_class_was_never_there(tmp_path: Path) -> None:
    images, labels = greys(2, [3, 4, 2])
    classifier = fitted(images, labels)
    thumbnails = classifier.support_thumbnails_
    assert classifier.remove("b") is classifier
    kept = [i for i, label in enumerate(labels) if label != "b"]
    again = fitted([images[i] for i in kept], [labels[i] for i in kept])
    assert classifier.classes_.tolist() == ["a", "c"]
    assert classifier.shots_.tolist() == [3, 2]
    np.testing.assert_allclose(
        classifier.predict_proba(images), again.predict_proba(images), atol=1e-6
    )
    assert classifier.reject_threshold_ == pytest.approx(again.reject_threshold_, abs=1e-6)
    assert classifier.support_thumbnails_ == [thumbnails[0], thumbnails[2]]
    classifier.save(tmp_path / "x.tadam")
    loaded = FewShotClassifier.load(tmp_path / "x.tadam", backbone=RawPixels(image_size=4))
    np.testing.assert_array_equal(loaded.predict_proba(images), classifier.predict_proba(images))


def test_a_class_that_cannot_be_removed_is_one_sentence() -> None:
    classifier = fitted(*greys(0, [2, 2]))
    with pytest.raises(UserError, match=r"no class 'z': the classes are a, b"):
        classifier.remove("z")
    with pytest.raises(UserError, match="only one class would be left"):
        classifier.remove("a")
    assert classifier.classes_.tolist() == ["a", "b"]
