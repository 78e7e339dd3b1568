"""FC100 and CIFAR-FS: every image in its class and split, and all damage is one sentence."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from data_files import md5, write_cifar100, write_tar
from tadam.config import DataConfig
from tadam.data import cifar100
from tadam.data.catalogue import load_splits, verify
from tadam.data.cifar100 import CIFAR_FS_SPLITS, FC100_SPLITS, FINE_LABELS, SUPERCLASSES
from tadam.errors import UserError

ALL_SPLITS = {"fc100": FC100_SPLITS, "cifar_fs": CIFAR_FS_SPLITS}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder with its own cache, and three images per class instead of 600."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TADAM_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(cifar100, "_IMAGES_PER_CLASS", 3)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def accept_checksums(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the test files pass as the published ones."""
    for path in cifar100.find(root):
        monkeypatch.setitem(cifar100._MD5, path.name, md5(path))


@pytest.fixture(params=[False, True], ids=["files", "archive"])
def published(request: pytest.FixtureRequest, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_cifar100(root, archive=request.param)
    accept_checksums(root, monkeypatch)
    return root


def message(call: Callable[..., Any]) -> str:
    """The one-sentence error for a user's mistake."""
    with pytest.raises(UserError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_there_are_100_classes_in_20_superclasses_of_five() -> None:
    assert len(SUPERCLASSES) == 20
    assert {len(names) for names in SUPERCLASSES.values()} == {5}
    assert len(set(FINE_LABELS)) == 100


@pytest.mark.parametrize(("name", "sizes"), [("fc100", (60, 20, 20)), ("cifar_fs", (64, 16, 20))])
def test_the_splits_have_their_sizes_and_share_no_class(
    name: str, sizes: tuple[int, int, int]
) -> None:
    splits = ALL_SPLITS[name]
    assert tuple(len(splits[part]) for part in ("train", "val", "test")) == sizes
    assert sorted(c for names in splits.values() for c in names) == sorted(FINE_LABELS)


def test_fc100_splits_share_no_superclass() -> None:
    parts = {
        split: {s for s, names in SUPERCLASSES.items() if set(names) & set(classes)}
        for split, classes in FC100_SPLITS.items()
    }
    assert [len(superclasses) for superclasses in parts.values()] == [12, 4, 4]
    assert len(set().union(*parts.values())) == 20


@pytest.mark.parametrize(
    ("split", "superclasses"),
    [
        ("val", ["large_carnivores", "large_omnivores_and_herbivores"]),
        ("val", ["non-insect_invertebrates", "small_mammals"]),
        ("test", ["aquatic_mammals", "insects", "medium_mammals", "people"]),
    ],
)
def test_fc100_holds_out_the_papers_superclasses(split: str, superclasses: list[str]) -> None:
    for superclass in superclasses:
        assert set(SUPERCLASSES[superclass]) <= set(FC100_SPLITS[split])


def test_cifar_fs_mixes_superclasses_and_keeps_published_classes_apart() -> None:
    for name, split in {"whale": "test", "dolphin": "train", "otter": "val"}.items():
        assert name in SUPERCLASSES["aquatic_mammals"]
        assert name in CIFAR_FS_SPLITS[split]
    for name in ("apple", "train", "wolf", "cloud"):
        assert name in CIFAR_FS_SPLITS["train"]


def test_fc100_and_cifar_fs_do_not_share_a_cache(published: Path) -> None:
    first = load_splits(DataConfig("fc100"))["test"].images.copy()
    load_splits(DataConfig("cifar_fs"))
    np.testing.assert_array_equal(load_splits(DataConfig("fc100"))["test"].images, first)


@pytest.mark.parametrize("name", ALL_SPLITS)
def test_every_image_is_in_its_class_train_before_test(published: Path, name: str) -> None:
    for _ in range(2):  # decoded, then from the cache
        stores = load_splits(DataConfig(name))
        for split, names in ALL_SPLITS[name].items():
            store = stores[split]
            assert store.class_names == tuple(names)
            middle = store.images[:, 16, 16].reshape(len(names), 3, 3)
            for label, pixels in zip(names, middle.tolist(), strict=True):
                k = FINE_LABELS.index(label)
                assert pixels == [[k, 0, 100], [k, 1, 100], [k, 0, 200]]


def test_rows_and_columns_are_not_swapped(published: Path) -> None:
    images = load_splits(DataConfig("fc100"))["train"].images
    assert (images[:, 0, 5] == 0).all()
    assert (images[:, 5, 0, 2] > 0).all()


def test_a_second_load_reads_no_pickle(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_splits(DataConfig("fc100"))
    monkeypatch.setattr(cifar100, "read_classes", lambda *_: pytest.fail("read again"))
    load_splits(DataConfig("fc100"))


def test_a_changed_file_is_noticed(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_splits(DataConfig("fc100"))
    path = cifar100.find(published)[0]
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    read = Mock(wraps=cifar100.read_classes)
    monkeypatch.setattr(cifar100, "read_classes", read)
    load_splits(DataConfig("fc100"))
    assert read.call_count == 1


def test_missing_files_are_one_sentence_that_says_what_to_do(root: Path) -> None:
    text = message(lambda: load_splits(DataConfig("fc100")))
    assert text == (
        f"fc100 is not in {root}: run 'tadam data prepare fc100', or put cifar-100-python.tar.gz "
        "(or cifar-100-python/ with train and test) there yourself, or choose another folder "
        "with `TADAM_DATA`"
    )


def test_half_of_the_files_is_not_enough(root: Path) -> None:
    write_cifar100(root)
    (root / "cifar-100-python" / "test").unlink()
    assert "fc100 is not in" in message(lambda: load_splits(DataConfig("fc100")))


def test_another_size_is_refused(published: Path) -> None:
    text = message(lambda: load_splits(DataConfig("fc100", image_size=84)))
    assert text == "data.image_size is 84, but fc100 images are 32 pixels: leave it at 0"


@pytest.mark.parametrize("archive", [False, True])
def test_a_wrong_checksum_is_one_sentence_and_nothing_is_cached(
    root: Path, tmp_path: Path, archive: bool
) -> None:
    write_cifar100(root, archive=archive)
    path = cifar100.find(root)[0]
    text = message(lambda: load_splits(DataConfig("fc100")))
    assert text == (
        f"{path} is not the published file (md5 {md5(path)}, expected "
        f"{cifar100._MD5[path.name]}): delete it and download it again"
    )
    assert verify("fc100") == [text]
    assert list((tmp_path / "cache").rglob("*.npy")) == []


def test_good_files_are_verified(published: Path) -> None:
    assert verify("fc100") == []


def test_a_truncated_file_is_one_sentence(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cifar100.find(published)[-1]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    accept_checksums(published, monkeypatch)
    assert "damaged or truncated" in message(lambda: load_splits(DataConfig("fc100")))


def test_an_archive_without_the_batches_is_one_sentence(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tar(root / cifar100._ARCHIVE, {"cifar-100-python/meta": b"x"})
    accept_checksums(root, monkeypatch)
    text = message(lambda: load_splits(DataConfig("fc100")))
    assert text == (
        f"{root / cifar100._ARCHIVE} lacks CIFAR-100's train and test batches: download it again"
    )


def test_a_pickle_of_something_else_is_one_sentence(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in [
        {"fine_labels": [0]},
        {"data": np.zeros((3, 3072), np.uint8), "fine_labels": [0, 1, 100]},
        {"data": np.zeros((3, 3072), np.uint8), "fine_labels": [0, 1]},
        {"data": np.zeros((3, 3072), np.float32), "fine_labels": [0, 1, 2]},
        {"data": np.zeros((3, 1000), np.uint8), "fine_labels": [0, 1, 2]},
        {"data": [1, 2], "fine_labels": ["a", "b"]},
        [1, 2, 3],
    ]:
        write_cifar100(root)
        path = root / "cifar-100-python" / "train"
        path.write_bytes(pickle.dumps(batch, 2))
        accept_checksums(root, monkeypatch)
        text = message(lambda: load_splits(DataConfig("fc100")))
        assert text == f"{path} is not a CIFAR-100 batch: download it again"


def test_a_class_with_too_few_images_is_one_sentence(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cifar100(root, train=1)
    accept_checksums(root, monkeypatch)
    text = message(lambda: load_splits(DataConfig("fc100")))
    assert "does not have 3 images of every class" in text
