"""Omniglot from the official archives: characters, alphabets and pixels are the published ones."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from tadam.config import DataConfig
from tadam.data.catalogue import load_splits, verify
from tadam.data.store import ImageStore

#: SHA-256 of each split's images, written down from a run.
PIXELS = {
    "train": "bb10c93d68f068efdb91dc0027bc3816386193bc8eee761445e7fd854dcc1cfd",
    "val": "e5525a914ef453c4eb7b837615bdf986b075e1c0a57197821af6fc1bab066c97",
    "test": "a6a2fc5ddaaa7b2175a56ad770ce2f4f6b71133459c5da897afeecf8e9f00dad",
}


def alphabets(store: ImageStore) -> set[str]:
    return {name.partition("/")[0] for name in store.class_names}


def test_the_split_of_vinyals_has_1028_172_and_423_characters_of_20_drawings(
    real_data: Callable[[str], Path],
) -> None:
    real_data("omniglot")
    stores = load_splits(DataConfig("omniglot"))
    assert [len(s.class_names) for s in stores.values()] == [1028, 172, 423]
    assert all((s.counts == 20).all() for s in stores.values())
    assert [len(alphabets(s)) for s in stores.values()] == [33, 5, 13]
    assert alphabets(stores["train"]) & alphabets(stores["test"]) == {"Gurmukhi"}
    assert not alphabets(stores["val"]) & (alphabets(stores["train"]) | alphabets(stores["test"]))
    digests = {part: hashlib.sha256(s.images.tobytes()).hexdigest() for part, s in stores.items()}
    assert digests == PIXELS


def test_with_rotations_there_are_four_times_as_many_classes(
    real_data: Callable[[str], Path],
) -> None:
    real_data("omniglot")
    stores = load_splits(DataConfig("omniglot_rotated"))
    assert [len(s.class_names) for s in stores.values()] == [4112, 688, 1692]


def test_the_drawings_are_verified(real_data: Callable[[str], Path]) -> None:
    real_data("omniglot")
    assert verify("omniglot") == []
