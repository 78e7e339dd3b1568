"""tiered-ImageNet: each pickled PNG is in its class, and mistakes are one sentence."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from data_files import TIERED_IMAGENET, damage, png, write_tiered_imagenet
from tadam.config import DataConfig
from tadam.data import tiered_imagenet
from tadam.data.catalogue import load_splits, verify
from tadam.data.unpickle import load_pickle
from tadam.errors import UserError

CONFIG = DataConfig("tiered_imagenet")
PUBLISHED = tiered_imagenet._EXPECTED


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small data set with its own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TADAM_DATA", str(tmp_path / "data"))
    expected = {split: (len(names), 3 * len(names)) for split, names in TIERED_IMAGENET.items()}
    monkeypatch.setattr(tiered_imagenet, "_EXPECTED", expected)
    return write_tiered_imagenet(tmp_path / "data")


def message() -> str:
    """The one-sentence error for a user's mistake, which verifying reports too."""
    with pytest.raises(UserError) as error:
        load_splits(CONFIG)
    text = str(error.value)
    assert "\n" not in text
    assert verify("tiered_imagenet") == [text]
    return text


def test_every_image_is_in_its_class_and_split() -> None:
    for _ in range(2):  # read, then from the cache
        stores = load_splits(CONFIG)
        assert stores["train"].class_names == ("crane", "wolf", "crane (2)")
        assert stores["test"].class_names == ("ant", "bee")
        for s, (split, names) in enumerate(TIERED_IMAGENET.items()):
            expected = [(100 + s, 50 * k, 70 * i) for k in range(len(names)) for i in range(3)]
            store = stores[split]
            assert store.images.shape[1:] == (84, 84, 3)
            assert [tuple(p) for p in store.images[:, 40, 40].tolist()] == expected
            assert (store.counts == 3).all()


def test_a_class_has_its_broader_category_as_its_family(folder: Path) -> None:
    for _ in range(2):  # read, then from the cache
        stores = load_splits(CONFIG)
        assert stores["train"].families == ("even", "odd", "even")
        assert stores["test"].families == ("even", "odd")
    labels = folder / "val_labels.pkl"
    content = pickle.loads(labels.read_bytes())
    del content["label_general"]
    labels.write_bytes(pickle.dumps(content, 2))
    stores = load_splits(CONFIG)  # a file without them has no families
    assert stores["val"].families == ()
    assert stores["train"].families == ("even", "odd", "even")


def test_another_size_can_be_loaded() -> None:
    assert load_splits(DataConfig("tiered_imagenet", image_size=32))["val"].image_size == 32


def test_a_second_load_reads_no_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    load_splits(CONFIG)
    monkeypatch.setattr(tiered_imagenet, "load_pickle", lambda *_: pytest.fail("read again"))
    load_splits(CONFIG)


@pytest.mark.parametrize("name", ["val_labels.pkl", "test_images_png.pkl"])
def test_a_changed_file_is_noticed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    load_splits(CONFIG)
    os.utime(folder / name, ns=(0, 12345))
    read = Mock(wraps=load_pickle)
    monkeypatch.setattr(tiered_imagenet, "load_pickle", read)
    load_splits(CONFIG)
    assert read.called


def test_without_one_of_the_files_the_sentence_says_what_to_put_where(folder: Path) -> None:
    (folder / "val_labels.pkl").unlink()
    with pytest.raises(UserError) as error:
        load_splits(CONFIG)
    assert str(error.value) == (
        f"tiered_imagenet is not in {folder.parent}: put tiered-imagenet/{{train,val,test}}_images_"
        "png.pkl and _labels.pkl there, or choose another folder with `TADAM_DATA`"
    )


def test_good_files_are_verified_and_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verify("tiered_imagenet") == []
    monkeypatch.setitem(tiered_imagenet._EXPECTED, "test", (2, 7))
    assert verify("tiered_imagenet") == [
        f"test of {folder} has 2 classes and 6 images, expected 2 and 7: download it again"
    ]


@pytest.mark.parametrize("name", ["val_images_png.pkl", "val_labels.pkl"])
def test_verifying_reads_the_files_even_if_they_are_cached(folder: Path, name: str) -> None:
    load_splits(CONFIG)
    content = (folder / name).read_bytes()
    damage(folder / name, content.find(b"IDAT") if b"IDAT" in content else 0)
    (problem,) = verify("tiered_imagenet")
    assert f"{folder / name} is " in problem


def test_verifying_leaves_nothing_in_the_cache(tmp_path: Path) -> None:
    assert verify("tiered_imagenet") == []
    assert not list(tmp_path.glob("cache/**/*.npy"))


def test_the_published_counts_add_up_to_608_classes_of_779165_images() -> None:
    classes, images = zip(*PUBLISHED.values(), strict=True)
    assert (sum(classes), sum(images)) == (608, 779_165)


class Attack:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return print, ("run",)


@pytest.mark.parametrize("name", ["val_images_png.pkl", "val_labels.pkl"])
def test_a_malicious_pickle_is_one_sentence(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / name).write_bytes(pickle.dumps([Attack()]))
    assert message().startswith(f"{folder / name} asks for")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["val_images_png.pkl", "val_labels.pkl"])
def test_a_truncated_pickle_is_one_sentence(folder: Path, name: str) -> None:
    (folder / name).write_bytes((folder / name).read_bytes()[:150])
    assert message() == f"{folder / name} is damaged or truncated: delete it and download it again"


def test_labels_of_something_else_are_one_sentence(folder: Path) -> None:
    for content in [
        [1],
        {"label_specific_str": ["gar"]},
        {"label_specific": [0, 0, 1], "label_specific_str": ["gar"]},
        {"label_specific": [0, 0, 0], "label_specific_str": ["gar", "pike"]},
        {"label_specific": [-1, 0, 0], "label_specific_str": ["gar"]},
        {"label_specific": [[0], [0]], "label_specific_str": ["gar"]},
        {"label_specific": ["a"], "label_specific_str": ["gar"]},
    ]:
        path = folder / "val_labels.pkl"
        path.write_bytes(pickle.dumps(content))
        assert message() == f"{path} does not hold tiered-ImageNet's labels: download it again"


def test_images_of_something_else_are_one_sentence(folder: Path) -> None:
    for content in [{}, [], [b"x"] * 3, [np.zeros(5, np.float32)] * 3, [np.zeros(5, np.uint8)] * 4]:
        path = folder / "val_images_png.pkl"
        path.write_bytes(pickle.dumps(content))
        assert message() == f"{path} is not a list of 3 PNG images: download it again"


def test_a_png_that_is_damaged_is_one_sentence(folder: Path) -> None:
    path = folder / "val_images_png.pkl"
    good = np.frombuffer(png(np.zeros((84, 84, 3), np.uint8)), np.uint8)
    path.write_bytes(pickle.dumps([good, np.zeros(50, np.uint8), good]))
    assert message().startswith(f"image 1 of {path} is not an image")


def test_names_that_python_2_wrote_become_text(folder: Path) -> None:
    content = {"label_specific": [0, 0, 0], "label_specific_str": ["caf\u00e9".encode()]}
    (folder / "val_labels.pkl").write_bytes(pickle.dumps(content))
    assert load_splits(CONFIG)["val"].class_names == ("café",)
