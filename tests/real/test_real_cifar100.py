"""FC100 and CIFAR-FS from the official files: classes, superclasses and pixels as published."""

import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tadam.config import DataConfig
from tadam.data.catalogue import load_splits, verify
from tadam.data.cifar100 import FINE_LABELS, SUPERCLASSES

#: SHA-256 of each split's images, written down from a run.
FC100_PIXELS = {
    "train": "e649ff209fe89a7c39fedaa6b71ac9a877bc9a47517788e572a4c190f2819927",
    "val": "3d40c398e4ecde0ae0e42d17aaeea0bd7c428a7a826d71e8e60084c2c8d7b4f7",
    "test": "02acc296984d9abbcc3fa98d8278ce7327d2dd4f84afa1259de97b5c07a11014",
}

CIFAR_FS_PIXELS = {
    "train": "b50a1517c24c1cfe482f4f16dfc353406abcb64d4214fbc4b218bc40a1572b62",
    "val": "f16059e8139db6ae5ed3c0f353f9244158922aa609a0d1376a76f96476d8ede5",
    "test": "8831e78a2021c3bd2a131ca7559fd7cb0c5ec60aec2f21b25fcac95fbeeee7ae",
}


def test_fc100_has_60_20_and_20_classes_of_600_images(real_data: Callable[[str], Path]) -> None:
    real_data("fc100")
    stores = load_splits(DataConfig("fc100"))
    assert [len(s.class_names) for s in stores.values()] == [60, 20, 20]
    assert all((s.counts == 600).all() for s in stores.values())
    assert {s.images.shape[1:] for s in stores.values()} == {(32, 32, 3)}
    digests = {part: hashlib.sha256(s.images.tobytes()).hexdigest() for part, s in stores.items()}
    assert digests == FC100_PIXELS


def test_cifar_fs_has_64_16_and_20_classes_of_600_images(real_data: Callable[[str], Path]) -> None:
    real_data("cifar_fs")
    stores = load_splits(DataConfig("cifar_fs"))
    assert [len(s.class_names) for s in stores.values()] == [64, 16, 20]
    assert all((s.counts == 600).all() for s in stores.values())
    digests = {part: hashlib.sha256(s.images.tobytes()).hexdigest() for part, s in stores.items()}
    assert digests == CIFAR_FS_PIXELS


def unpacked(root: Path, name: str) -> bytes:
    """A file of CIFAR-100; skips where only the archive is there."""
    path = root / "cifar-100-python" / name
    if not path.exists():
        pytest.skip(f"{path} is not there: unpack the archive to compare with it")
    return path.read_bytes()


def test_the_names_in_the_package_are_those_of_the_file(real_data: Callable[[str], Path]) -> None:
    meta = pickle.loads(unpacked(real_data("fc100"), "meta"))
    assert tuple(meta["fine_label_names"]) == FINE_LABELS
    assert meta["coarse_label_names"] == list(SUPERCLASSES)


def test_no_superclass_is_in_two_splits_by_the_labels_of_the_file(
    real_data: Callable[[str], Path],
) -> None:
    raw = pickle.loads(unpacked(real_data("fc100"), "train"), encoding="latin1")
    coarse = dict(zip(raw["fine_labels"], raw["coarse_labels"], strict=True))
    found = {
        part: {coarse[FINE_LABELS.index(name)] for name in store.class_names}
        for part, store in load_splits(DataConfig("fc100")).items()
    }
    assert found == {
        "train": {1, 2, 3, 4, 5, 6, 9, 10, 15, 17, 18, 19},
        "val": {8, 11, 13, 16},
        "test": {0, 7, 12, 14},
    }


def test_an_image_is_the_one_that_plain_pickle_and_numpy_read(
    real_data: Callable[[str], Path],
) -> None:
    raw = pickle.loads(unpacked(real_data("fc100"), "test"), encoding="latin1")
    store = load_splits(DataConfig("fc100"))["val"]
    name = store.class_names[7]
    rows = np.flatnonzero(np.array(raw["fine_labels"]) == FINE_LABELS.index(name))
    expected = np.moveaxis(raw["data"][rows].reshape(-1, 3, 32, 32), 1, 3)
    np.testing.assert_array_equal(store.images[7 * 600 + 500 : 8 * 600], expected)


def test_the_official_files_are_verified(real_data: Callable[[str], Path]) -> None:
    real_data("fc100")
    assert verify("fc100") == []
