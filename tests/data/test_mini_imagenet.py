"""mini-ImageNet: all three formats give the same pixels, and mistakes are one sentence."""

import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_files import MINI_IMAGENET, damage, mini_imagenet_pixels, write_mini_imagenet
from tadam.config import DataConfig
from tadam.data import mini_imagenet
from tadam.data.catalogue import load_splits, verify
from tadam.errors import UserError

CONFIG = DataConfig("mini_imagenet")
PUBLISHED = mini_imagenet._EXPECTED
FORMS = ["pkl", "npz", "csv"]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder with its own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TADAM_DATA", str(tmp_path / "data"))
    expected = {split: (len(names), 3 * len(names)) for split, names in MINI_IMAGENET.items()}
    monkeypatch.setattr(mini_imagenet, "_EXPECTED", expected)
    return tmp_path / "data"


@pytest.fixture(params=FORMS)
def folder(request: pytest.FixtureRequest, root: Path) -> Path:
    return write_mini_imagenet(root, request.param)


def message(call: Callable[..., Any] = lambda: load_splits(CONFIG)) -> str:
    """The one-sentence error for a user's mistake."""
    with pytest.raises(UserError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("form", FORMS)
def test_every_image_is_in_its_class_and_split(root: Path, form: str) -> None:
    write_mini_imagenet(root, form)
    for _ in range(2):  # read, then from the cache
        stores = load_splits(CONFIG)
        for split, names in MINI_IMAGENET.items():
            store, names = stores[split], sorted(names)
            known = [f"{split} {k:02}" for k in range(len(names))] if form == "npz" else names
            assert list(store.class_names) == known
            expected = np.concatenate([mini_imagenet_pixels(name, 3) for name in names])
            np.testing.assert_array_equal(store.images, expected)
            assert (store.counts == 3).all()


def test_a_complete_form_is_preferred_to_an_incomplete_one(root: Path) -> None:
    folder = write_mini_imagenet(root, "csv")
    write_mini_imagenet(root, "pkl")
    assert [p.suffix for p in mini_imagenet.find(root)] == [".pkl"] * 3
    (folder / "mini-imagenet-cache-val.pkl").unlink()
    assert [p.suffix for p in mini_imagenet.find(root)] == [".csv"] * 3


def test_a_second_load_reads_no_pixels(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_splits(CONFIG)
    monkeypatch.setattr(mini_imagenet, "_read", lambda *_: pytest.fail("read again"))
    monkeypatch.setattr("tadam.data.folder.decode", lambda *_: pytest.fail("decoded again"))
    load_splits(CONFIG)


def test_a_changed_file_is_noticed(root: Path, folder: Path) -> None:
    load_splits(CONFIG)
    form = mini_imagenet.find(root)[0].suffix[1:]
    shutil.rmtree(folder)
    write_mini_imagenet(root, form, count=4)
    assert load_splits(CONFIG)["val"].counts.tolist() == [4]


def test_every_form_loads_at_any_size(folder: Path) -> None:
    full = load_splits(CONFIG)["val"].images
    small = load_splits(DataConfig("mini_imagenet", image_size=28))["val"].images
    assert small.shape == (len(full), 28, 28, 3)
    means = full.reshape(-1, 28, 3, 28, 3, 3).mean(axis=(2, 4))
    assert np.abs(small - means).mean() < 0.25 * np.abs(small - means[::-1]).mean()


def test_without_files_the_sentence_says_what_to_put_where(root: Path) -> None:
    assert message() == (
        f"mini_imagenet is not in {root}: put mini-imagenet/mini-imagenet-cache-"
        "{train,val,test}.pkl (or few-shot-*.npz, or Ravi's *.csv with images/) there, or choose "
        "another folder with `TADAM_DATA`"
    )


def test_good_files_are_verified(folder: Path) -> None:
    assert verify("mini_imagenet") == []


def test_verifying_reads_the_files_even_if_they_are_cached(root: Path, folder: Path) -> None:
    load_splits(CONFIG)
    assert verify("mini_imagenet") == []
    path = mini_imagenet.find(root)[1]
    if path.suffix == ".csv":
        path = folder / "images" / "n0400000.jpg"
    damage(path, {".pkl": 0, ".npz": 5000, ".jpg": 20}[path.suffix])
    (problem,) = verify("mini_imagenet")
    assert problem.startswith(f"{path} is ")


def test_verifying_counts_classes_and_images(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(mini_imagenet._EXPECTED, "val", (16, 9600))
    assert verify("mini_imagenet") == [
        f"val of {folder} has 1 classes and 3 images, expected 16 and 9,600: download it again"
    ]


def test_the_published_counts_are_64_16_and_20_classes_of_600_images() -> None:
    assert PUBLISHED == {"train": (64, 64 * 600), "val": (16, 16 * 600), "test": (20, 20 * 600)}


# Pickles


def write_pickle(folder: Path, content: object) -> Path:
    path = folder / "mini-imagenet-cache-val.pkl"
    path.write_bytes(pickle.dumps(content, 2))
    return path


class Attack:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return print, ("run",)


def test_a_malicious_pickle_is_one_sentence(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_pickle(write_mini_imagenet(root, "pkl"), {"image_data": Attack()})
    text = message()
    assert text.startswith(f"{path} asks for ")
    assert "none of it was run" in text
    assert verify("mini_imagenet") == [text]
    assert capsys.readouterr().out == ""


GOOD = np.zeros((4, 84, 84, 3), np.uint8)


def test_a_pickle_of_something_else_is_one_sentence(root: Path) -> None:
    for content in [
        {"class_dict": {"n04": [0]}},
        {"image_data": GOOD},
        {"image_data": GOOD, "class_dict": {}},
        {"image_data": GOOD, "class_dict": [1, 2]},
        {"image_data": GOOD, "class_dict": {"n04": []}},
        {"image_data": GOOD, "class_dict": {"n04": [4]}},
        {"image_data": GOOD, "class_dict": {"n04": [-1]}},
        {"image_data": GOOD, "class_dict": {"n04": ["zero"]}},
        {"image_data": GOOD, "class_dict": {"n04": [[0], [1]]}},
        {"image_data": GOOD, "class_dict": {"n04": [2**80]}},
        {"image_data": GOOD.astype(np.float32), "class_dict": {"n04": [0]}},
        {"image_data": GOOD[:, :80], "class_dict": {"n04": [0]}},
        {"image_data": [1, 2], "class_dict": {"n04": [0]}},
        [GOOD],
    ]:
        path = write_pickle(write_mini_imagenet(root, "pkl"), content)
        assert message() == (f"{path} is not mini-ImageNet at 84 pixels: download it again")


def test_a_class_in_two_splits_is_one_sentence(root: Path) -> None:
    folder = write_mini_imagenet(root, "pkl")
    write_pickle(folder, {"image_data": GOOD, "class_dict": {"n03": [0, 1]}})
    assert message() == (f"class 'n03' is in train and in val of {folder}: keep it in one split")


# Archives of arrays


def npz(folder: Path) -> Path:
    return folder / "few-shot-val.npz"


def test_an_npz_of_something_else_is_one_sentence(root: Path) -> None:
    wrong: list[dict[str, Any]] = [
        {"features": GOOD},
        {"features": GOOD, "targets": np.zeros(3, int)},
        {"features": GOOD.astype(float), "targets": np.zeros(4, int)},
        {"features": GOOD, "targets": np.array(["a"] * 4)},
        {"features": GOOD[0, 0, 0, 0], "targets": np.zeros(4, int)},
        {"features": np.array([{}], dtype=object), "targets": np.zeros(1, int)},
    ]
    for arrays in wrong:
        path = npz(write_mini_imagenet(root, "npz"))
        np.savez(path, **arrays)
        assert message() == (f"{path} is not mini-ImageNet at 84 pixels: download it again")


def test_a_malicious_npz_is_one_sentence(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = npz(write_mini_imagenet(root, "npz"))
    np.savez(path, features=np.array([Attack()], dtype=object), targets=np.zeros(1, int))
    assert message().startswith(f"{path} is not mini-ImageNet")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("form", ["pkl", "npz"])
def test_a_truncated_file_is_one_sentence(root: Path, form: str) -> None:
    write_mini_imagenet(root, form)
    path = mini_imagenet.find(root)[1]
    path.write_bytes(path.read_bytes()[:1000])
    assert message() == f"{path} is damaged or truncated: delete it and download it again"


@pytest.mark.parametrize("form", ["pkl", "npz"])
def test_a_file_that_is_too_large_is_one_sentence(
    root: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_mini_imagenet(root, form)
    monkeypatch.setattr(mini_imagenet, "_LARGEST", 30_000)
    assert "implausibl" in message()


def test_a_small_npz_that_expands_too_far_is_one_sentence(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = npz(write_mini_imagenet(root, "npz"))
    np.savez_compressed(path, features=np.zeros((4000, 84, 84, 3), np.uint8), targets=[0])
    assert path.stat().st_size < 2**20
    monkeypatch.setattr(mini_imagenet, "_LARGEST", 2**20)
    assert "expands to an implausible size" in message()


def test_an_npz_that_lies_about_its_size_is_one_sentence(root: Path) -> None:
    path = npz(write_mini_imagenet(root, "npz"))
    with zipfile.ZipFile(path) as archive:
        header = archive.read("features.npy")[:128]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("features.npy", header.replace(b"(3, 84", b"(3000000, 84"))
        archive.writestr("targets.npy", b"")
    assert "needs more memory" in message() or "mini-ImageNet" in message()


# Ravi's lists


@pytest.fixture
def listed(root: Path) -> Path:
    return write_mini_imagenet(root, "csv")


def test_a_list_without_the_images_is_one_sentence(listed: Path) -> None:
    shutil.rmtree(listed / "images")
    assert message() == (
        f"{listed / 'images'} does not exist: put the images that the CSVs list there"
    )


def test_an_image_that_is_listed_but_missing_is_one_sentence(listed: Path) -> None:
    for name in ["n0400000.png", "../val.csv", "/etc/passwd", ""]:
        (listed / "val.csv").write_text(f"filename,label\n{name},n04\n")
        text = message()
        assert text == f"{listed / 'val.csv'} lists {name!r}, which is not in {listed / 'images'}"
        assert verify("mini_imagenet") == [text]


def test_a_list_of_something_else_is_one_sentence(listed: Path) -> None:
    for content in [b"a,b\nn0400000.jpg,n04\n", b"filename\nx\n", b"\xff\xfe\x00"]:
        (listed / "val.csv").write_bytes(content)
        assert message() == (
            f"{listed / 'val.csv'} must be a CSV file with columns filename and label"
        )


def test_an_image_without_a_label_is_one_sentence(listed: Path) -> None:
    name = next((listed / "images").iterdir()).name
    (listed / "val.csv").write_text(f"filename,label\n{name}\n")
    assert message() == f"{listed / 'val.csv'} has no label for {name!r}: download it again"


def test_an_empty_list_is_one_sentence(listed: Path) -> None:
    for content in ["", "filename,label\n"]:
        (listed / "val.csv").write_text(content)
        assert message() == f"{listed / 'val.csv'} lists no images: download it again"


def test_a_class_that_is_listed_twice_is_one_sentence(listed: Path) -> None:
    with open(listed / "val.csv", "a") as file:
        file.write("n0300000.jpg,n03\n")
    assert "class 'n03' is in train and in val" in message()


def test_verifying_names_every_image_that_cannot_be_read(listed: Path) -> None:
    names = sorted(p.name for p in (listed / "images").iterdir())[:2]
    for name in names:
        (listed / "images" / name).write_text("not a picture")
    assert sorted(p.split(" is not an image")[0] for p in verify("mini_imagenet")) == [
        str(listed / "images" / name) for name in names
    ]
