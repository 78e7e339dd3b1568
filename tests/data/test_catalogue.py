"""The catalogue: data sets by name, the split of `shapes`, and mistakes in one sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tadam.config import DataConfig
from tadam.data import catalogue, shapes
from tadam.data.catalogue import load_split, load_splits, verify
from tadam.data.shapes_source import load_shapes
from tadam.errors import UserError


def message(call: Callable[..., Any]) -> str:
    """The one-sentence error for a user's mistake."""
    with pytest.raises(UserError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_error_for_an_unknown_data_set_lists_the_known_ones() -> None:
    text = message(lambda: load_splits(DataConfig("shape")))
    assert text.startswith("unknown data set 'shape': choose one of ")
    for source in catalogue.SOURCES:
        assert source.name in text


def test_the_error_for_an_unknown_split_lists_the_known_ones() -> None:
    text = message(lambda: load_split(DataConfig("shapes"), "validation"))
    assert text == "unknown split 'validation': choose one of train, val, test"


def test_shapes_come_in_one_size() -> None:
    text = message(lambda: load_splits(DataConfig("shapes", image_size=64)))
    assert text == "data.image_size is 64, but shapes images are 32 pixels: leave it at 0"
    assert load_splits(DataConfig("shapes", image_size=32))["val"].image_size == 32


def test_shapes_have_64_16_and_20_classes_named_as_the_benchmark_says() -> None:
    stores, names = load_shapes(), shapes.class_names()
    assert {part: len(store.class_names) for part, store in stores.items()} == {
        "train": 64,
        "val": 16,
        "test": 20,
    }
    for part, indices in shapes.split_classes().items():
        assert stores[part].class_names == tuple(names[k] for k in indices)
    together = [name for store in stores.values() for name in store.class_names]
    assert len(set(together)) == 100


@pytest.fixture
def numbered_shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fills every image of class k with the value k, and splits the classes in reverse order."""
    shape = (100, shapes.IMAGES_PER_CLASS, shapes.IMAGE_SIZE, shapes.IMAGE_SIZE, 3)
    numbers = np.arange(100, dtype=np.uint8)[:, None, None, None, None]
    splits = {"train": range(99, 35, -1), "val": range(35, 19, -1), "test": range(19, -1, -1)}
    monkeypatch.setattr(shapes, "draw", lambda: np.broadcast_to(numbers, shape))
    monkeypatch.setattr(shapes, "split_classes", lambda: splits)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.usefixtures("numbered_shapes")
def test_the_images_of_a_shapes_class_are_those_drawn_for_it() -> None:
    for _ in range(2):  # drawn, then read from the cache
        stores = load_shapes()
        for part, indices in shapes.split_classes().items():
            expected = np.repeat(indices, shapes.IMAGES_PER_CLASS)
            assert (stores[part].images == expected[:, None, None, None]).all()
            assert (stores[part].counts == shapes.IMAGES_PER_CLASS).all()


@pytest.mark.usefixtures("numbered_shapes")
def test_verifying_shapes_notices_a_changed_pixel(tmp_path: Path) -> None:
    assert verify("shapes") == []
    (path,) = (tmp_path / "cache").rglob("*.npy")
    images = np.load(path)
    images[0, 0, 0, 0] ^= 1
    np.save(path, images)  # without a checksum, as 0.1.0 wrote it
    assert len(verify("shapes")) == 1


def test_verifying_a_folder_names_each_bad_image(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (20, 20)).save(tmp_path / name / "good.png")
        (tmp_path / name / "bad.png").touch()
    problems = verify(f"folder:{tmp_path}")
    assert [p.split(" is not an image")[0] for p in problems] == [
        str(tmp_path / name / "bad.png") for name in ("a", "b", "c")
    ]


def test_no_image_is_in_two_splits() -> None:
    stores = load_shapes()
    parts = [store.images for store in stores.values()]
    assert sum(map(len, parts)) == 100 * shapes.IMAGES_PER_CLASS
    for i, one in enumerate(parts):
        assert not any(np.shares_memory(one, other) for other in parts[i + 1 :])


def test_shapes_are_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    load_shapes()
    monkeypatch.setattr(shapes, "draw", lambda: pytest.fail("drawn again"))
    load_shapes()


def test_loading_one_split_equals_taking_it_from_all_splits() -> None:
    np.testing.assert_array_equal(
        load_split(DataConfig("shapes"), "test").images, load_shapes()["test"].images
    )


def test_a_folder_is_found_by_its_path_even_with_a_tilde(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (tmp_path / "pets" / name).mkdir(parents=True)
        Image.new("RGB", (20, 20), "red").save(tmp_path / "pets" / name / "1.png")
    monkeypatch.setenv("HOME", str(tmp_path))
    calls = []
    for path in (tmp_path / "pets", "~/pets"):
        config = DataConfig(f"folder:{path}", image_size=16, split_seed=3)
        stores = load_splits(config, progress=lambda *done: calls.append(done))
        assert sorted(n for s in stores.values() for n in s.class_names) == ["a", "b", "c"]
        assert stores["train"].images.shape == (1, 16, 16, 3)
    assert calls == [(1, 3), (2, 3), (3, 3)]  # the second load came from the cache


def test_a_missing_folder_is_one_sentence(tmp_path: Path) -> None:
    text = message(lambda: load_splits(DataConfig(f"folder:{tmp_path / 'nowhere'}")))
    assert str(tmp_path / "nowhere") in text


def test_resizable_data_sets_say_so() -> None:
    for source in catalogue.SOURCES:
        assert ("any" in source.size) == source.resizable, source.name
