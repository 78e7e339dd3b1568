"""Archives: read in place, and refused outright if any member is suspicious."""

import io
import random
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from tadam.data import archive as module
from tadam.data.archive import members
from tadam.errors import UserError

FILES = {"a/b.txt": b"bee" * 1000, "c.png": b"\x89PNG", "empty": b""}


def write(path: Path, files: dict[str, bytes]) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.mkdir("a")
            for name, content in files.items():
                archive.writestr(name, content)
        return path
    with tarfile.open(path, "w:gz" if path.suffix != ".tar" else "w") as tar:
        folder = tarfile.TarInfo("a")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture(params=["a.zip", "a.tar", "a.tar.gz", "a.tgz"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def refusal(path: Path) -> str:
    """The one-sentence error that refuses an archive."""
    with pytest.raises(UserError) as error:
        [member.read() for member in members(path)]
    text = str(error.value)
    assert "\n" not in text
    assert text.startswith(str(path))
    return text


def test_every_file_comes_out_as_it_went_in(path: Path) -> None:
    write(path, FILES)
    assert {member.name: member.read() for member in members(path)} == FILES


def test_names_are_listed_without_reading(path: Path) -> None:
    write(path, FILES)
    assert [member.name for member in members(path)] == list(FILES)


def test_a_name_that_would_escape_the_folder_is_one_sentence(tmp_path: Path) -> None:
    for name in [
        "../evil",
        "a/../../evil",
        "/etc/evil",
        "..\\evil",
        "\\evil",
        "C:\\evil",
        "C:evil",
    ]:
        for path in (tmp_path / "a.zip", tmp_path / "a.tgz"):
            write(path, {"good": b"x", name: b"evil"})
            text = refusal(path)
            assert "contains a member that would escape its folder" in text
            assert text.endswith(
                "it is not the published file; download it again from the official source"
            )
        assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.tgz", "a.zip"]


def test_dots_in_a_name_are_allowed(path: Path) -> None:
    names = ["a..b/c", "..a/x", "a/b..png"]
    write(path, dict.fromkeys(names, b"x"))
    assert [member.name for member in members(path)] == names


def test_a_link_or_device_in_a_tar_is_refused(tmp_path: Path) -> None:
    for kind in [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE]:
        with tarfile.open(tmp_path / "a.tar", "w") as tar:
            info = tarfile.TarInfo("link")
            info.type, info.linkname = kind, "/etc/passwd"
            tar.addfile(info)
        assert "contains a link" in refusal(tmp_path / "a.tar")


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    assert "contains a link" in refusal(tmp_path / "a.zip")


def test_a_member_that_is_too_large_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, FILES)
    monkeypatch.setattr(module, "MAX_MEMBER", 2999)
    assert "contains a member of" in refusal(path)


def test_a_zip_that_expands_to_more_than_it_claims_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.zip", {"bomb": b"0" * 100_000})
    content = (tmp_path / "a.zip").read_bytes()
    size = (100_000).to_bytes(4, "little")
    assert content.count(size) == 2  # next to the content and in the directory
    (tmp_path / "a.zip").write_bytes(content.replace(size, (10).to_bytes(4, "little")))
    assert "is damaged or truncated" in refusal(tmp_path / "a.zip")


def test_a_truncated_archive_is_one_sentence(path: Path) -> None:
    for share in [0.1, 0.3, 0.6]:
        write(path, {"x": random.Random(0).randbytes(20_000)})  # cannot be compressed
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])
        assert refusal(path).endswith("is damaged or truncated: delete it and download it again")


def test_a_file_that_is_not_an_archive_is_one_sentence(path: Path) -> None:
    path.write_text("<html>not here</html>")
    assert "is damaged or truncated" in refusal(path)


def test_a_missing_archive_is_not_called_damaged(path: Path) -> None:
    assert "cannot be opened: No such file" in refusal(path)


def test_a_changed_byte_in_a_zip_is_noticed(tmp_path: Path) -> None:
    write(tmp_path / "a.zip", {"x": bytes(range(256)) * 20})
    content = bytearray((tmp_path / "a.zip").read_bytes())
    content[60] ^= 1
    (tmp_path / "a.zip").write_bytes(content)
    assert "is damaged" in refusal(tmp_path / "a.zip")
