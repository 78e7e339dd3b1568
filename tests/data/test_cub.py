"""CUB: the same birds from folder or archive, split by rule or file; mistakes are one sentence."""

import os
import shutil
from pathlib import Path

import pytest

from data_files import damage, md5, write_cub, write_tar
from tadam.config import DataConfig
from tadam.data import cub
from tadam.data.catalogue import load_splits, verify
from tadam.errors import UserError

CONFIG = DataConfig("cub", image_size=16)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder with its own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TADAM_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(cub, "_CLASSES", 6)
    monkeypatch.setattr(cub, "_IMAGE_COUNT", 12)
    return tmp_path / "data"


def accept_checksum(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cub, "_MD5", md5(root / "cub" / cub._ARCHIVE))


@pytest.fixture(params=["folder", "archive"])
def birds(request: pytest.FixtureRequest, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = write_cub(root, archive=request.param == "archive")
    if request.param == "archive":
        accept_checksum(root, monkeypatch)
    return folder


def message() -> str:
    """The one-sentence error for a user's mistake."""
    with pytest.raises(UserError) as error:
        load_splits(CONFIG)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_rule_deals_200_classes_into_100_50_and_50() -> None:
    names = [f"{k:03}.Bird" for k in range(1, 201)]
    splits = cub.split_classes(names)
    assert [len(part) for part in splits.values()] == [100, 50, 50]
    assert splits["train"][:3] == ["001.Bird", "003.Bird", "005.Bird"]
    assert splits["val"][:3] == ["002.Bird", "006.Bird", "010.Bird"]
    assert splits["test"][:3] == ["004.Bird", "008.Bird", "012.Bird"]


def test_every_image_is_in_its_class_and_split(birds: Path) -> None:
    for _ in range(2):  # read, then from the cache
        stores = load_splits(CONFIG)
        assert {part: list(s.class_names) for part, s in stores.items()} == {
            "train": ["001.Albatross", "003.Auk", "013.Bobolink"],
            "val": ["002.Auklet", "006.Bunting"],
            "test": ["004.Ani"],
        }
        for store in stores.values():
            numbers = [int(name[:3]) for name in store.class_names]
            expected = [[k, i, 9] for k in numbers for i in (1, 2)]
            assert store.images[:, 8, 8].tolist() == expected


def test_a_split_file_overrides_the_rule(birds: Path) -> None:
    load_splits(CONFIG)
    for name in ("001.Albatross", "002.Auklet"):  # a change to it is noticed
        (birds / "splits.toml").write_text(
            f'train = ["004.Ani"]\nval = ["006.Bunting"]\ntest = ["{name}"]\n'
        )
        stores = load_splits(CONFIG)
        assert stores["test"].class_names == (name,)
        assert stores["test"].images[1, 8, 8].tolist() == [int(name[:3]), 2, 9]


def test_images_are_84_pixels_by_default(birds: Path) -> None:
    assert load_splits(DataConfig("cub"))["val"].images.shape == (4, 84, 84, 3)


def test_a_second_load_reads_nothing(birds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_splits(CONFIG)
    monkeypatch.setattr(cub, "members", lambda *_: pytest.fail("read again"))
    monkeypatch.setattr("tadam.data.folder.decode", lambda *_: pytest.fail("decoded again"))
    load_splits(CONFIG)


def test_a_changed_archive_is_noticed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_cub(root, archive=True) / cub._ARCHIVE
    accept_checksum(root, monkeypatch)
    load_splits(CONFIG)
    os.utime(path, ns=(0, 12345))
    monkeypatch.setattr(cub, "_MD5", "0")
    assert "is not the published file" in message()


def test_hidden_files_are_not_birds(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = {"CUB_200_2011/images/001.Albatross/._a.jpg": b"what macOS leaves"}
    write_cub(root)
    with open(root / "cub" / cub._IMAGES / "001.Albatross" / "Albatross_0001.jpg", "rb") as file:
        for name in ("001.A", "002.B", "004.C"):
            content[f"CUB_200_2011/images/{name}/a.jpg"] = file.read()
            file.seek(0)
    shutil.rmtree(root / "cub")
    write_tar(root / "cub" / cub._ARCHIVE, content)
    accept_checksum(root, monkeypatch)
    assert [s.class_names for s in load_splits(CONFIG).values()] == [
        ("001.A",), ("002.B",), ("004.C",)
    ]  # fmt: skip


def test_good_birds_are_verified(birds: Path) -> None:
    assert verify("cub") == []


def test_verifying_reads_the_files_even_if_they_are_cached(root: Path, birds: Path) -> None:
    load_splits(DataConfig("cub"))
    assert verify("cub") == []
    (found,) = cub.find(root)
    path = found / "004.Ani" / "Ani_0001.jpg" if found.is_dir() else found
    damage(path, path.stat().st_size // 2)
    (problem,) = verify("cub")
    assert problem.startswith(str(path))


def test_verifying_checks_the_splits_too(birds: Path) -> None:
    (birds / "splits.toml").write_text('train = ["001.Albatross"]\n')
    assert verify("cub") == [
        f"{birds / 'splits.toml'} must hold three lists of class names: train, val and test"
    ]


def test_verifying_counts_and_names_bad_images(root: Path) -> None:
    folder = write_cub(root) / cub._IMAGES
    bad = folder / "001.Albatross" / "Albatross_0001.jpg"
    bad.write_text("not a picture")
    (folder / "004.Ani" / "Ani_0001.jpg").unlink()
    problems = verify("cub")
    assert problems[0].startswith(f"{bad} is not an image")
    assert problems[1:] == [
        f"{folder} has 6 classes and 11 images, expected 6 and 12: download it again"
    ]


def test_a_wrong_checksum_is_one_sentence(root: Path) -> None:
    path = write_cub(root, archive=True) / cub._ARCHIVE
    assert message().startswith(f"{path} is not the published file (md5 {md5(path)}, expected")
    assert verify("cub") == [message()]


def test_a_truncated_archive_is_one_sentence(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_cub(root, archive=True) / cub._ARCHIVE
    path.write_bytes(path.read_bytes()[:300])
    accept_checksum(root, monkeypatch)
    assert message() == f"{path} is damaged or truncated: delete it and download it again"


def test_an_archive_of_something_else_is_one_sentence(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "cub" / cub._ARCHIVE
    write_tar(path, {"README": b"x"})
    accept_checksum(root, monkeypatch)
    assert message() == f"{path} has no CUB_200_2011/images: download it again"


def test_a_folder_that_is_not_a_class_is_one_sentence(root: Path) -> None:
    folder = write_cub(root) / cub._IMAGES
    shutil.copytree(folder / "004.Ani", folder / "Ani")
    assert message() == "cub folder 'Ani' is not a class such as 013.Bobolink: remove it"


def test_without_files_the_sentence_says_what_to_do(root: Path) -> None:
    assert message() == (
        f"cub is not in {root}: run 'tadam data prepare cub', or put cub/CUB_200_2011.tgz (or "
        "unpacked, cub/CUB_200_2011/images/) there yourself, or choose another folder "
        "with `TADAM_DATA`"
    )
