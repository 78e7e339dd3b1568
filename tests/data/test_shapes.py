"""The built-in benchmark: the same pixels everywhere, and as hard as it claims to be."""

import hashlib

import numpy as np
import numpy.typing as npt
import pytest

from tadam.data import shapes

Images = npt.NDArray[np.uint8]

# Changes only together with shapes.VERSION.
SHA256 = "4220ef15fa9428f8131af1cd36cdf3f49c4194300ddcc5f4fc4c25d4dc56f6cf"


@pytest.fixture(scope="module")
def images() -> Images:
    return shapes.draw()


def test_every_class_has_its_images_in_one_array(images: Images) -> None:
    assert images.dtype == np.uint8
    assert images.shape == (100, shapes.IMAGES_PER_CLASS, 32, 32, 3)
    assert shapes.IMAGES_PER_CLASS >= 100
    assert shapes.IMAGE_SIZE == 32


def test_pixels_are_the_same_on_every_machine(images: Images) -> None:
    assert hashlib.sha256(images.tobytes()).hexdigest() == SHA256


def test_splits_are_disjoint_and_cover_all_classes() -> None:
    splits = shapes.split_classes()
    assert {name: len(classes) for name, classes in splits.items()} == {
        "train": 64,
        "val": 16,
        "test": 20,
    }
    assert sorted(c for classes in splits.values() for c in classes) == list(range(100))


def test_names_are_unique_and_say_which_attribute_is_free() -> None:
    names = shapes.class_names()
    assert len(set(names)) == len(names) == 100
    assert all(name.endswith(("(any shape)", "(any texture)", "(any colour)")) for name in names)
    striped_star = shapes.ShapeClass(
        shape=shapes.OUTLINES.index("star"), texture=shapes.TEXTURES.index("striped"), colour=None
    )
    assert striped_star.name == "striped star (any colour)"


def test_no_two_classes_fix_the_same_attributes_and_each_leaves_one_free() -> None:
    assert len(set(shapes.CLASSES)) == 100
    assert all(list(fixed).count(None) == 1 for fixed in shapes.CLASSES)


def test_training_sees_every_attribute_value_of_the_test_classes() -> None:
    splits = shapes.split_classes()
    for attribute in range(3):
        seen, needed = (
            {shapes.CLASSES[c][attribute] for c in splits[name]} for name in ("train", "test")
        )
        assert needed <= seen


def test_some_test_classes_differ_in_one_attribute_only() -> None:
    test = [shapes.CLASSES[c] for c in shapes.split_classes()["test"]]
    for attribute in range(3):
        others = [c[:attribute] + c[attribute + 1 :] for c in test if c[attribute] is not None]
        assert len(set(others)) < len(others), ("shape", "texture", "colour")[attribute]


def test_no_two_images_are_equal(images: Images) -> None:
    flat = images.reshape(-1, images[0, 0].size)
    assert len({row.tobytes() for row in flat}) == len(flat)


def test_images_of_a_class_vary_as_much_as_images_of_different_classes(images: Images) -> None:
    pixels = images.astype(np.float64)
    inside = pixels.std(axis=1).mean()
    overall = pixels.std(axis=(0, 1)).mean()
    assert inside > 0.85 * overall


def test_nearest_mean_of_raw_pixels_fails_on_the_test_classes(images: Images) -> None:
    way, shot, queries, tasks = 5, 5, 15, 300
    test = images[list(shapes.split_classes()["test"])]
    pixels = test.reshape(*test.shape[:2], -1).astype(np.float64) / 255
    rng = np.random.default_rng(0)
    accuracies = []
    for _ in range(tasks):
        classes = rng.choice(len(pixels), way, replace=False)
        drawn = np.stack([rng.permutation(pixels.shape[1])[: shot + queries] for _ in classes])
        task = pixels[classes[:, None], drawn]  # (K, M + Q, D)
        means = task[:, :shot].mean(axis=1)  # (K, D)
        query = task[:, shot:].reshape(way * queries, -1)
        distance = (means**2).sum(axis=1) - 2 * query @ means.T
        labels = np.repeat(np.arange(way), queries)
        accuracies.append((distance.argmin(axis=1) == labels).mean())
    accuracy = np.mean(accuracies)
    assert 0.25 < accuracy < 0.45, f"nearest mean of raw pixels reaches {accuracy:.1%}"
