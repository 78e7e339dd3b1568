"""Writing files: all of the new content or the old, and folders found where promised."""

import errno
import os
import stat
import time
from pathlib import Path

import pytest

from tadam.errors import RunFailed, UserError
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
        raise OSError(errno.EIO, "disk on fire")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(RunFailed, match=r"a\.txt cannot be written \(disk on fire\)"):
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


def test_what_the_system_refuses_is_a_sentence_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    table: list[tuple[int, type[Exception], str]] = [
        (errno.ENOSPC, RunFailed, "the disk is full"),
        (errno.EDQUOT, RunFailed, "the disk is full"),
        (errno.EROFS, UserError, "choose a place you may write to"),
        (errno.EACCES, UserError, "choose a place you may write to"),
        (errno.EIO, RunFailed, "check the disk"),
    ]
    for number, kind, words in table:

        def fail(*_: object, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with pytest.raises(kind, match=rf"^{path} cannot be written.*{words}"):
                files.write_text(path, "new")
    assert os.listdir(tmp_path) == []


def test_a_folder_a_nul_and_a_name_that_is_too_long_are_no_files(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "\0", tmp_path / ("x" * 300), tmp_path / "a" / ("y" * 300)):
        with pytest.raises(UserError, match="choose another file"):
            files.write_text(path, "new")


def test_a_name_of_255_bytes_is_a_file(tmp_path: Path) -> None:
    files.write_text(tmp_path / ("é" * 127), "new")
    assert (tmp_path / ("é" * 127)).read_text() == "new"


def test_what_a_killed_process_left_is_swept_once_it_is_old(tmp_path: Path) -> None:
    with files.replacing(tmp_path / "other.csv") as temporary:
        tagged = tmp_path / temporary.name
    (tmp_path / "other.csv").unlink()
    old = time.time() - 2 * 24 * 3600
    ours = [tagged, tmp_path / ".a.txt.abcd1234.tmp"]  # the second as 0.1.0 named it
    others = [
        tmp_path / name
        for name in (".b.txt.abcd1234.tmp", "a.txt.abcd1234.tmp", ".a.txt.tmp", ".a.txt.swp")
    ]
    young = tmp_path / ".a.txt.tadam-young123.tmp"
    for file in (*ours, *others, young):
        file.write_text("half")
        if file is not young:
            os.utime(file, (old, old))
    assert all(map(files.is_left_over, [*ours, young]))
    files.write_text(tmp_path / "a.txt", "new")
    assert set(tmp_path.iterdir()) == {tmp_path / "a.txt", young, *others}
