"""`tadam predict --copy-to` and `--move-to`, and `tadam undo`."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from command_line import CommandLine, assert_one_sentence
from photos import SUBJECTS
from tadam.classify import reading, sorting


@pytest.fixture
def unsorted(labelled: Path, tmp_path: Path) -> Path:
    """Photos whose names say what they are, all in one folder."""
    folder = tmp_path / "unsorted"
    folder.mkdir()
    for file in labelled.glob("*/*"):
        shutil.copy(file, folder / f"{file.parent.name}-{file.name}")
    return folder


def test_photos_go_to_their_classes_and_back(
    tadam: CommandLine, fitted: Path, unsorted: Path, tmp_path: Path
) -> None:
    names = sorted(file.name for file in unsorted.iterdir())
    out, page, table = tmp_path / "sorted", tmp_path / "p.html", tmp_path / "t.csv"
    result = tadam("predict", fitted, unsorted, "--copy-to", out)
    assert result.code == 0
    assert f"18 photos copied to {out}; to undo it: tadam undo {out / 'tadam-undo.jsonl'}" in (
        result.out
    )
    assert sorted(p.name for p in out.iterdir() if p.is_dir()) == sorted(SUBJECTS)
    for file in out.glob("*/*"):
        assert file.name.startswith(file.parent.name)
    assert tadam("undo", out / "tadam-undo.jsonl").out == "18 photos are as before\n"
    assert list(out.iterdir()) == []
    files = ("--report", page, "--csv", table)
    values = json.loads(tadam("predict", fitted, unsorted, "--move-to", out, *files, "--json").out)
    assert list(unsorted.iterdir()) == []
    assert len(values["sorted"]["files"]) == 18
    assert 'href="sorted/box/box-100.jpg"' in page.read_text()  # where the photo is now
    assert str(unsorted / "box-100.jpg") in table.read_text()
    result = tadam("predict", fitted, out, "--move-to", out)
    assert f"{out}: every photo is in its place already" in result.out
    values = json.loads(tadam("undo", values["sorted"]["undo"], "--json").out)
    assert values == {"undone": 18, "skipped": []}
    assert sorted(file.name for file in unsorted.iterdir()) == names


def test_unknown_photos_get_a_folder_of_their_own(
    tadam: CommandLine, fitted: Path, unsorted: Path, tmp_path: Path
) -> None:
    predict = ("predict", fitted, unsorted, "--reject-threshold", 0)
    values = json.loads(tadam(*predict, "--copy-to", tmp_path / "sorted", "--json").out)
    strange = sorted(Path(p["path"]).name for p in values["predictions"] if p["unknown"])
    assert strange
    assert sorted(file.name for file in (tmp_path / "sorted" / "unknown").iterdir()) == strange


def test_mistakes_are_one_sentence_and_move_nothing(
    tadam: CommandLine, fitted: Path, unsorted: Path, tmp_path: Path
) -> None:
    predict = ("predict", fitted, unsorted)
    both = ("--copy-to", tmp_path / "a", "--move-to", tmp_path / "a")
    assert_one_sentence(tadam(*predict, *both), "--copy-to and --move-to exclude each other")
    assert_one_sentence(tadam(*predict, "--move-to", fitted), "is a file: name a folder")
    for place in (unsorted, unsorted / "new"):
        result = tadam(*predict, "--copy-to", place)
        assert_one_sentence(result, "would be among the images", "--move-to")
    assert_one_sentence(tadam("undo", fitted), "is not a list that --copy-to or --move-to wrote")
    assert_one_sentence(tadam("undo", tmp_path / "no"), "does not exist")
    assert len(list(unsorted.iterdir())) == 18


def test_after_ctrl_c_nothing_is_sorted(
    tadam: CommandLine,
    fitted: Path,
    unsorted: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for i in range(100):
        shutil.copy(unsorted / "box-100.jpg", unsorted / f"again-{i}.jpg")
    monkeypatch.setattr(reading, "_PIXELS_AT_ONCE", 1)  # batches of 64
    joined = reading._joined

    def interrupted(parts: list[reading.Prepared]) -> reading.Prepared:
        os.kill(os.getpid(), signal.SIGINT)
        return joined(parts)

    monkeypatch.setattr(reading, "_joined", interrupted)
    result = tadam("predict", fitted, unsorted, "--move-to", tmp_path / "sorted")
    assert result.code == 1
    assert "the results cover only these" in result.err
    assert not (tmp_path / "sorted").exists()


def test_photos_that_cannot_be_moved_are_told_and_the_rest_is(
    tadam: CommandLine,
    fitted: Path,
    unsorted: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    move = sorting._move

    def sometimes(source: Path, target: Path) -> None:
        if source.name.startswith("disc"):
            raise PermissionError(13, "Permission denied")
        move(source, target)

    monkeypatch.setattr(sorting, "_move", sometimes)
    result = tadam("predict", fitted, unsorted, "--move-to", tmp_path / "sorted")
    assert result.code == 1
    assert result.err.count("cannot be moved: Permission denied") == 6
    assert result.err.endswith("error: 6 of 18 photos were not moved\n")
    assert "12 photos moved" in result.out
    assert len(list(unsorted.iterdir())) == 6


def test_a_folder_that_another_command_sorts_into_is_left_alone(
    tadam: CommandLine,
    fitted: Path,
    unsorted: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sorting, "PATIENCE", 0)
    out = tmp_path / "sorted"
    assert tadam("predict", fitted, unsorted, "--copy-to", out).code == 0
    there = sorted(out.rglob("*"))
    with sorting.alone_in(out):
        for command in (
            ["undo", out / "tadam-undo.jsonl"],
            ["predict", fitted, unsorted, "--move-to", out],
        ):
            done = tadam(*command)
            assert done.code == 1
            assert f"is still writing to {out}: wait" in done.err
    assert sorted(out.rglob("*")) == there
    assert len(list(unsorted.iterdir())) == 18
