"""Zips of class folders: found like folders, and refused before anything of them is read."""

import stat
import zipfile
from pathlib import Path

import pytest

from tadam.data import photo_zip as module
from tadam.data.photo_zip import zipped_classes
from tadam.errors import UserError


def make(path: Path, *names: str, content: bytes = b"photo") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, content)
    return path


def names(path: Path, nested: bool = False) -> dict[str, list[str]]:
    found = zipped_classes(path, nested)
    return {k: [str(p.path).removeprefix(f"{path}/") for p in some] for k, some in found.items()}


def test_classes_are_the_outermost_folders_with_or_without_one_around_them(tmp_path: Path) -> None:
    files = ("rose/b.JPG", "rose/a.jpg", "lily/x/c.png", "lily/notes.txt", "rose/.d.jpg")
    assert names(make(tmp_path / "a.zip", *files)) == {
        "lily": ["lily/x/c.png"],
        "rose": ["rose/a.jpg", "rose/b.JPG"],
    }
    around = (f"my flowers/{name}" for name in files)
    found = names(make(tmp_path / "b.zip", *around, "__MACOSX/my flowers/rose/._a.jpg"))
    assert list(found) == ["lily", "rose"]
    assert names(tmp_path / "b.zip", nested=True) == {
        "lily/x": ["my flowers/lily/x/c.png"],
        "rose": ["my flowers/rose/a.jpg", "my flowers/rose/b.JPG"],
    }
    assert [p.read() for p in zipped_classes(tmp_path / "a.zip")["rose"]] == [b"photo"] * 2


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as error:
        zipped_classes(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    return str(error.value)


def test_what_is_dangerous_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("../x.jpg", "a/../../x.jpg", "/etc/x.jpg", "C:/x.jpg", "a\\..\\x.jpg"):
        assert "escape its folder" in refusal(make(tmp_path / "a.zip", "a/1.jpg", name)), name
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        info = zipfile.ZipInfo("a/1.jpg")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    assert "contains a link, 'a/1.jpg'" in refusal(tmp_path / "link.zip")
    fine = make(tmp_path / "b.zip", "a/1.jpg", "b/2.jpg")
    for limit, least, words in [
        ("MAX_PHOTO_BYTES", 5, "contains a member of"),
        ("MAX_PHOTOS", 2, "unpack it"),
        ("MAX_ZIP_BYTES", 10, "unpack it"),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, least)
            assert list(zipped_classes(fine)) == ["a", "b"]
            patch.setattr(module, limit, least - 1)
            assert words in refusal(fine)


def test_what_is_no_zip_of_classes_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"PK no")
    assert "damaged or truncated: make it again" in refusal(tmp_path / "x.zip")
    assert "there are no images" in refusal(make(tmp_path / "y.zip", "a/x.txt"))
    assert "outside any class folder" in refusal(make(tmp_path / "z.zip", "x.jpg", "y.jpg"))
    whole = make(tmp_path / "w.zip", "a/1.jpg", content=bytes(5000)).read_bytes()
    (tmp_path / "w.zip").write_bytes(whole.replace(bytes(5000), bytes(4999) + b"x"))
    (photo,) = zipped_classes(tmp_path / "w.zip")["a"]
    with pytest.raises(UserError, match=r"damaged or truncated"):
        photo.read()
