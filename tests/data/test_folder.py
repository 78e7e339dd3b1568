"""`folder:PATH`: classes are found, split and decoded once; mistakes are one sentence."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tadam.data import folder as module
from tadam.data.decode import Pixels, decode
from tadam.data.folder import class_files, left_out, load_folder, split_names
from tadam.data.store import ImageStore
from tadam.errors import UserError

SIZE = 16


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def colour_of(label: int, number: int) -> tuple[int, int, int]:
    return (20 * label, 30 * number, 100)


def make_folder(path: Path, counts: dict[str, int]) -> Path:
    """A folder of single-colour images whose colour encodes class and number."""
    for label, (name, count) in enumerate(counts.items()):
        (path / name).mkdir(parents=True)
        for i in range(count):
            image = Image.new("RGB", (SIZE, SIZE), colour_of(label, i))
            image.save(path / name / f"{i}.png")
    return path


@pytest.fixture
def animals(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "animals", {"owl": 2, "cat": 3, "eel": 1, "dog": 2, "ant": 4})


def message(call: Callable[..., Any]) -> str:
    """The one-sentence error for a user's mistake."""
    with pytest.raises(UserError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


# Finding classes and files


def test_classes_and_files_are_sorted_and_sub_folders_searched(animals: Path) -> None:
    (animals / "cat" / "more").mkdir()
    shutil.copy(animals / "cat" / "0.png", animals / "cat" / "more" / "9.PNG")
    (animals / "cat" / "notes.txt").write_text("not an image")
    (animals / "README.md").write_text("not a class")
    found = class_files(animals)
    assert list(found) == ["ant", "cat", "dog", "eel", "owl"]
    names = [f.relative_to(animals / "cat").as_posix() for f in found["cat"]]
    assert names == ["0.png", "1.png", "2.png", "more/9.PNG"]


def test_hidden_folders_and_files_are_ignored(animals: Path) -> None:
    make_folder(animals, {".thumbnails": 2, "cat/.trash": 2})
    (animals / "dog" / "._0.png").write_bytes(b"what macOS leaves on a memory stick")
    found = class_files(animals)
    assert ".thumbnails" not in found
    assert [f.name for f in found["cat"]] == ["0.png", "1.png", "2.png"]
    assert [f.name for f in found["dog"]] == ["0.png", "1.png"]


def test_a_hidden_folder_above_the_images_does_not_hide_them(tmp_path: Path) -> None:
    path = make_folder(tmp_path / ".data" / "animals", {"cat": 2})
    assert len(class_files(path)["cat"]) == 2


def test_a_folder_named_like_an_image_is_not_read_as_one(animals: Path) -> None:
    (animals / "cat" / "x.jpg").mkdir()
    assert [f.name for f in class_files(animals)["cat"]] == ["0.png", "1.png", "2.png"]


def test_a_file_instead_of_a_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    text = f"{tmp_path / 'a.png'} is a file: give a folder with a sub-folder for each class"
    assert message(lambda: class_files(tmp_path / "a.png")) == text


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_unused_files_are_counted_in_one_sentence(animals: Path, tmp_path: Path) -> None:
    used = [file for files in class_files(animals).values() for file in files]
    (animals / ".hidden").touch()
    (animals / "cat" / ".DS_Store").touch()
    (animals / "linked").symlink_to(animals / "cat")  # a class of its own
    assert left_out(animals, [*used, animals / "linked" / "0.png"]) == []
    (animals / "linked").unlink()
    for name in ("r.txt", "s.txt"):
        (animals / "cat" / name).touch()
    (animals / "cat" / "z").symlink_to(tmp_path / "nothing")
    (animals / "cat" / "y.png").symlink_to(animals)
    (animals / "loose.png").touch()
    assert left_out(animals, used) == [
        f"files under {animals}: 2 without an image extension, such as r.txt; "
        "2 links to folders or to missing files, such as y.png; "
        "1 outside any class folder, such as loose.png"
    ]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    text = message(lambda: class_files(tmp_path / "nowhere"))
    assert text.startswith(f"the image folder {tmp_path / 'nowhere'} does not exist")


@pytest.mark.parametrize("loose_image", [False, True])
def test_a_folder_without_sub_folders_is_told_what_to_do(tmp_path: Path, loose_image: bool) -> None:
    folder = tmp_path / "loose"
    folder.mkdir()
    if loose_image:
        Image.new("RGB", (4, 4)).save(folder / "a.png")
    text = message(lambda: class_files(folder))
    assert text == f"{folder} has no sub-folders: put each class's images in a folder of its own"


def test_a_class_folder_without_images_is_named(animals: Path) -> None:
    (animals / "bat").mkdir()
    (animals / "bat" / "notes.txt").touch()
    assert message(lambda: class_files(animals)).startswith(
        f"class folder {animals / 'bat'} has no images"
    )


# Splitting the classes


def test_a_seed_splits_64_16_20_percent_with_five_classes_for_val_and_test_if_possible(
    tmp_path: Path,
) -> None:
    for classes, sizes in [
        (100, (64, 16, 20)),
        (50, (32, 8, 10)),
        (25, (15, 5, 5)),
        (15, (5, 5, 5)),
        (5, (3, 1, 1)),
        (3, (1, 1, 1)),
    ]:
        names = [f"c{k:03}" for k in range(classes)]
        splits = split_names(tmp_path, names, seed=0)
        assert tuple(len(splits[part]) for part in ("train", "val", "test")) == sizes
        assert sorted(splits["train"] + splits["val"] + splits["test"]) == names


def test_the_split_is_fixed_by_the_seed_and_changes_with_it(tmp_path: Path) -> None:
    names = [f"c{k:03}" for k in range(100)]
    splits = [split_names(tmp_path, names, seed) for seed in (0, 0, 1)]
    assert splits[0] == splits[1]
    assert splits[0] != splits[2]


def test_a_pinned_split_shows_that_published_splits_stay_the_same(tmp_path: Path) -> None:
    splits = split_names(tmp_path, list("abcdefghij"), seed=0)
    assert splits == GOLDEN_SPLIT


def test_fewer_than_three_classes_cannot_be_split(tmp_path: Path) -> None:
    text = message(lambda: split_names(tmp_path, ["cat", "dog"], seed=0))
    assert text == (
        f"{tmp_path} has 2 classes, but a train/val/test split needs at least 3: add classes"
    )


def test_a_split_file_is_honoured_whatever_the_seed(animals: Path) -> None:
    (animals / "splits.toml").write_text(
        'test = ["dog"]\ntrain = ["owl", "ant"]\nval = ["cat"]\n'  # eel is left out
    )
    for seed in (0, 1):
        stores = load_folder(animals, SIZE, seed)
        assert {part: s.class_names for part, s in stores.items()} == {
            "train": ("owl", "ant"),
            "val": ("cat",),
            "test": ("dog",),
        }
        assert stores["train"].counts.tolist() == [2, 4]
        assert tuple(stores["test"].images[1, 0, 0]) == colour_of(3, 1)


def test_a_mistake_in_the_split_file_is_one_sentence(animals: Path) -> None:
    for text, expected in [
        (
            'train = ["ant", "bat"]\nval = ["cat"]\ntest = ["dog"]',
            "lists class 'bat', which has no",
        ),
        (
            'train = ["ant", "cat"]\nval = ["cat"]\ntest = ["dog"]',
            "lists class 'cat' more than once",
        ),
        (
            'train = ["ant", "ant"]\nval = ["cat"]\ntest = ["dog"]',
            "lists class 'ant' more than once",
        ),
        ('train = ["ant"]\nval = ["cat"]', "must hold three lists of class names"),
        ('train = ["ant"]\nval = ["cat"]\ntest = []\nx = []', "must hold three lists"),
        ('train = "ant"\nval = ["cat"]\ntest = []', "must hold three lists"),
        ("train = [1]\nval = []\ntest = []", "must hold three lists"),
        ('train = ["ant"]\nval = ["cat"]\ntest = []', "must hold three lists"),
        ("train = [", "is not valid TOML"),
    ]:
        (animals / "splits.toml").write_text(text)
        sentence = message(lambda: load_folder(animals, SIZE, 0))
        assert sentence.startswith(f"{animals / 'splits.toml'} {expected}")


def test_a_split_file_that_is_not_text_is_one_sentence(animals: Path) -> None:
    (animals / "splits.toml").write_bytes(b"\xff\xfe\x00")
    assert "is not valid TOML" in message(lambda: load_folder(animals, SIZE, 0))


# Reading the images


def test_every_image_is_in_its_class_in_its_split(animals: Path) -> None:
    stores = load_folder(animals, SIZE, seed=0)
    labels = {"owl": 0, "cat": 1, "eel": 2, "dog": 3, "ant": 4}
    counts = {"owl": 2, "cat": 3, "eel": 1, "dog": 2, "ant": 4}
    seen = []
    for store in stores.values():
        for name, start, stop in zip(
            store.class_names, store.offsets[:-1], store.offsets[1:], strict=True
        ):
            expected = [colour_of(labels[name], i) for i in range(counts[name])]
            assert [tuple(p) for p in store.images[start:stop, SIZE // 2, SIZE // 2]] == expected
            seen.append(name)
    assert sorted(seen) == sorted(labels)


def test_image_size_0_means_the_default(animals: Path) -> None:
    stores = load_folder(animals, 0, seed=0)
    assert {s.images.shape[1:] for s in stores.values()} == {(84, 84, 3)}


def test_progress_is_reported_after_every_image(animals: Path) -> None:
    calls = []
    load_folder(animals, SIZE, seed=0, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(i, 12) for i in range(1, 13)]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files decoded so far; it grows as decoding goes on."""
    paths: list[Path] = []

    def spying_decode(path: Path, size: int) -> Pixels:
        paths.append(path)
        return decode(path, size)

    monkeypatch.setattr(module, "decode", spying_decode)
    return paths


def assert_same_stores(one: dict[str, ImageStore], other: dict[str, ImageStore]) -> None:
    assert list(one) == list(other)
    for part in one:
        assert one[part].class_names == other[part].class_names
        np.testing.assert_array_equal(one[part].images, other[part].images)


def test_a_second_load_decodes_nothing(animals: Path, decoded: list[Any]) -> None:
    first = load_folder(animals, SIZE, seed=0)
    assert len(decoded) == 12
    assert_same_stores(first, load_folder(animals, SIZE, seed=0))
    assert len(decoded) == 12


def replace_image(folder: Path) -> None:
    Image.new("RGB", (SIZE, SIZE), "white").save(folder / "cat" / "1.png")


def touch_image(folder: Path) -> None:
    before = (folder / "cat" / "1.png").stat()
    os.utime(folder / "cat" / "1.png", ns=(before.st_atime_ns, before.st_mtime_ns + 1))


def rename_image(folder: Path) -> None:
    (folder / "cat" / "1.png").rename(folder / "cat" / "1b.png")


def add_image(folder: Path) -> None:
    shutil.copy2(folder / "cat" / "1.png", folder / "cat" / "3.png")


@pytest.mark.parametrize("change", [replace_image, touch_image, rename_image, add_image])
def test_a_change_to_a_file_is_noticed(
    animals: Path, decoded: list[Any], change: Callable[..., Any]
) -> None:
    load_folder(animals, SIZE, seed=0)
    before = len(decoded)
    change(animals)
    stores = load_folder(animals, SIZE, seed=0)
    assert len(decoded) > before
    shutil.rmtree(os.environ["XDG_CACHE_HOME"])
    assert_same_stores(stores, load_folder(animals, SIZE, seed=0))


def test_another_size_or_folder_is_another_cache(animals: Path, decoded: list[Any]) -> None:
    load_folder(animals, SIZE, seed=0)
    assert load_folder(animals, 20, seed=0)["train"].image_size == 20
    load_folder(animals, SIZE, seed=0)  # neither has evicted the other
    assert len(decoded) == 24
    shutil.copytree(animals, animals.parent / "copy")  # keeps times and sizes
    load_folder(animals.parent / "copy", SIZE, seed=0)
    assert len(decoded) == 36


def test_a_relative_path_and_an_absolute_one_share_the_cache(
    animals: Path, decoded: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    load_folder(animals, SIZE, seed=0)
    monkeypatch.chdir(animals.parent)
    load_folder(Path("animals"), SIZE, seed=0)
    assert len(decoded) == 12


def test_a_damaged_image_is_named_and_nothing_is_cached(animals: Path, tmp_path: Path) -> None:
    (animals / "dog" / "1.png").write_text("woof")
    text = message(lambda: load_folder(animals, SIZE, seed=0))
    assert text.startswith(f"{animals / 'dog' / '1.png'} is not an image")
    assert list((tmp_path / "cache").rglob("*.npy")) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows has Unicode names only")
def test_a_file_whose_name_is_not_utf8_is_read(animals: Path) -> None:
    name = os.fsdecode(b"caf\xe9.png")
    try:
        shutil.copy(animals / "cat" / "0.png", animals / "cat" / name)
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    stores = load_folder(animals, SIZE, seed=0)
    assert sum(len(s.images) for s in stores.values()) == 13


# Recorded once: a different split is a different benchmark.
GOLDEN_SPLIT = {
    "train": ["b", "c", "d", "i"],
    "val": ["a", "g", "h"],
    "test": ["e", "f", "j"],
}
