"""Writing files: all of the new content or the old, and folders found where promised."""

import os
import stat
from pathlib import Path

import pytest

from tadam.system import files


class Failure(Exception):
    pass


def test_success_replaces_the_old_file_and_leaves_no_temporary(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with files.replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"  # until the block ends
        assert temporary.parent == path.parent  # renames work only within one file system
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_failing_block_leaves_the_old_file_and_no_temporary(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def save(temporary: Path) -> None:
        temporary.write_text("half of the n")
        raise Failure

    with pytest.raises(Failure):
        files.write_with(path, save)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_failing_block_creates_no_new_file(tmp_path: Path) -> None:
    with pytest.raises(Failure), files.replacing(tmp_path / "a.txt"):
        raise Failure
    assert os.listdir(tmp_path) == []


def test_a_failing_rename_leaves_the_old_file_and_no_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(*_: Path) -> None:
        raise OSError("disk on fire")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk on fire"):
        files.write_text(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_content_is_synced_before_the_rename_and_the_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, real_fsync, real_replace = [], os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        events.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        real_fsync(descriptor)

    def replace(*args: Path) -> None:
        events.append("rename")
        real_replace(*args)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    files.write_text(tmp_path / "a.txt", "new")
    assert events == ["file", "rename", "folder"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_follow_the_umask(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        files.write_text(tmp_path / "a.txt", "x")
        assert os.umask(umask) == umask  # reading it did not change it
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == mode


def test_missing_folders_are_created(tmp_path: Path) -> None:
    files.write_text(tmp_path / "a" / "b" / "c.txt", "ä\n")
    assert (tmp_path / "a" / "b" / "c.txt").read_bytes() == "ä\n".encode()


def test_write_with_hands_a_path_to_the_saver(tmp_path: Path) -> None:
    def save(path: Path) -> None:
        path.write_bytes(b"\x01\x02")

    files.write_with(tmp_path / "a.bin", save)
    assert (tmp_path / "a.bin").read_bytes() == b"\x01\x02"


def test_tests_never_use_the_users_own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert files.cache_dir().is_relative_to(tmp_path_factory.getbasetemp().parent)
    assert files.cache_dir().name == "tadam"


def test_the_variable_sets_the_data_folder_which_is_in_the_cache_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TADAM_DATA", str(tmp_path))
    assert files.data_dir() == tmp_path
    monkeypatch.setenv("TADAM_DATA", "~/data")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert files.data_dir() == tmp_path / "data"
    monkeypatch.setenv("TADAM_DATA", "")
    assert files.data_dir() == files.cache_dir() / "data"
    monkeypatch.delenv("TADAM_DATA")
    assert files.data_dir() == files.cache_dir() / "data"
