"""Omniglot: each drawing in its class and split, white ink, rotations as further classes."""

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from data_files import omniglot_drawing, write_omniglot
from tadam.config import DataConfig
from tadam.data import omniglot
from tadam.data.catalogue import load_splits, verify
from tadam.errors import UserError


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small archives in a data folder with its own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TADAM_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(omniglot, "DRAWINGS", dict.fromkeys(omniglot.ARCHIVES, 6))
    write_omniglot(tmp_path / "data")
    return tmp_path / "data"


def message(call: Callable[..., Any]) -> str:
    """The one-sentence error for a user's mistake."""
    with pytest.raises(UserError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


SPLITS = {
    "train": ("Greek/character01", "Greek/character02", "Gurmukhi/character41"),
    "val": ("Hebrew/character02",),
    "test": ("Gurmukhi/character42", "ULOG/character01"),
}


def test_characters_are_split_as_published() -> None:
    for archive, character, split in [
        ("images_background.zip", "Alphabet_of_the_Magi/character01", "train"),
        ("images_background.zip", "Armenian/character41", "val"),
        ("images_background.zip", "Asomtavruli_(Georgian)/character01", "train"),
        ("images_background.zip", "Bengali/character01", "val"),
        ("images_background.zip", "Early_Aramaic/character22", "val"),
        ("images_background.zip", "Hebrew/character01", "val"),
        ("images_background.zip", "Mkhedruli_(Georgian)/character10", "val"),
        ("images_background.zip", "Tifinagh/character55", "train"),
        ("images_evaluation.zip", "Angelic/character01", "train"),
        ("images_evaluation.zip", "Glagolitic/character45", "train"),
        ("images_evaluation.zip", "Gurmukhi/character41", "train"),
        ("images_evaluation.zip", "Gurmukhi/character42", "test"),
        ("images_evaluation.zip", "Kannada/character01", "test"),
        ("images_evaluation.zip", "ULOG/character26", "test"),
    ]:
        assert omniglot.split_of(archive, character) == split


def test_every_drawing_is_in_its_character_with_white_ink() -> None:
    for _ in range(2):  # decoded, then from the cache
        stores = load_splits(DataConfig("omniglot"))
        assert {part: s.class_names for part, s in stores.items()} == SPLITS
        for store in stores.values():
            assert store.images.shape[1:] == (28, 28, 1)
            assert (store.counts == 2).all()
            for row, pixels in enumerate(store.images[..., 0]):
                drawing = omniglot_drawing(store.class_names[row // 2], row % 2 + 1)
                ink = Image.fromarray((~drawing).astype(np.uint8) * 255)
                expected = np.asarray(ink.resize((28, 28), Image.Resampling.BOX)).astype(int)
                assert np.abs(pixels - expected).mean() < 3
                assert pixels.max() == 255


def test_an_alphabet_is_a_family_turned_or_not() -> None:
    assert load_splits(DataConfig("omniglot"))["test"].families == ("Gurmukhi", "ULOG")
    turned = load_splits(DataConfig("omniglot_rotated"))["train"]
    assert turned.families == ("Greek",) * 8 + ("Gurmukhi",) * 4


def test_another_size_can_be_loaded() -> None:
    stores = load_splits(DataConfig("omniglot", image_size=32))
    assert stores["test"].images.shape == (4, 32, 32, 1)


def test_rotations_are_classes_of_their_own() -> None:
    plain = load_splits(DataConfig("omniglot"))
    turned = load_splits(DataConfig("omniglot_rotated"))
    for part, store in turned.items():
        names = [
            f"{name}/rot{angle}" for name in SPLITS[part] for angle in ("000", "090", "180", "270")
        ]
        assert list(store.class_names) == names
        assert (store.counts == 2).all()
        for k in range(len(names)):
            original = plain[part].images[2 * (k // 4) : 2 * (k // 4) + 2, :, :, 0]
            for one, other in zip(original, store.images[2 * k : 2 * k + 2, :, :, 0], strict=True):
                angle = 90 * (k % 4)
                expected = Image.fromarray(one).rotate(angle)
                np.testing.assert_array_equal(other, np.asarray(expected))


def test_a_second_load_opens_no_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    load_splits(DataConfig("omniglot"))
    monkeypatch.setattr(omniglot, "members", lambda *_: pytest.fail("read again"))
    load_splits(DataConfig("omniglot"))
    load_splits(DataConfig("omniglot_rotated"))


def test_a_changed_archive_is_noticed(root: Path) -> None:
    load_splits(DataConfig("omniglot"))
    before = (root / "omniglot" / "images_background.zip").stat().st_mtime_ns
    write_omniglot(root)
    path = root / "omniglot" / "images_background.zip"
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("Greek", "Latin"), content)
    os.utime(path, ns=(before, before + 1))
    assert load_splits(DataConfig("omniglot"))["train"].class_names[0] == "Latin/character01"


def test_one_archive_alone_is_not_enough(root: Path) -> None:
    (root / "omniglot" / "images_evaluation.zip").unlink()
    text = message(lambda: load_splits(DataConfig("omniglot")))
    assert text == (
        f"omniglot is not in {root}: run 'tadam data prepare omniglot', or put "
        "omniglot/images_background.zip and omniglot/images_evaluation.zip there yourself, or "
        "choose another folder with `TADAM_DATA`"
    )


def test_missing_drawings_are_one_sentence(root: Path) -> None:
    write_omniglot(root, drawings=1)
    path = root / "omniglot" / "images_background.zip"
    text = message(lambda: load_splits(DataConfig("omniglot")))
    assert text == f"{path} has 3 drawings, expected 6: download it again"


def test_a_zip_with_a_name_that_escapes_its_folder_is_one_sentence(root: Path) -> None:
    path = root / "omniglot" / "images_background.zip"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../../evil.png", b"x")
    text = message(lambda: load_splits(DataConfig("omniglot")))
    assert "'../../evil.png'" in text
    assert verify("omniglot")[0] == text


def test_a_truncated_archive_is_one_sentence(root: Path) -> None:
    path = root / "omniglot" / "images_evaluation.zip"
    path.write_bytes(path.read_bytes()[:500])
    assert message(lambda: load_splits(DataConfig("omniglot"))).startswith(f"{path} is damaged")


def test_a_drawing_that_is_not_an_image_is_one_sentence(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "omniglot" / "images_evaluation.zip"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("images_evaluation/ULOG/character01/0123_03.png", b"not a picture")
    monkeypatch.setitem(omniglot.DRAWINGS, "images_evaluation.zip", 7)
    text = message(lambda: load_splits(DataConfig("omniglot")))
    assert "0123_03.png" in text
    assert "is not an image" in text


def test_verifying_compares_the_drawings_however_they_are_zipped(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = omniglot.find(root)
    assert [p.split(" does not")[0] for p in verify("omniglot")] == [str(path) for path in paths]
    for path in paths:
        monkeypatch.setitem(omniglot.CONTENT, path.name, omniglot._digest(path))
        with zipfile.ZipFile(path) as archive:
            files = {name: archive.read(name) for name in sorted(archive.namelist())}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    assert verify("omniglot") == []
