"""`tadam info`, `add` and `remove`: a classifier's file is described and changed as a whole."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from command_line import CommandLine, assert_one_sentence
from photos import photo, write_photos
from tadam import FewShotClassifier
from tadam.cli import classifier_files
from tadam.cli.labelled_photos import read_labelled
from tadam.models import modelfile
from tadam.system import folder_lock


def test_photos_and_classes_come_and_go(
    tadam: CommandLine, fitted: Path, photos: Path, tmp_path: Path
) -> None:
    more = write_photos(tmp_path / "more", each=2, start=300)
    (more / "wedge").rename(more / "arrow")
    result = tadam("add", fitted, more)
    assert result.code == 0
    assert "6 photos added, 1 new classes; 4 classes from 24 images now" in result.out
    assert "photos of each class: arrow 2, box 8, disc 8, wedge 6" in result.out
    assert "same" not in result.err
    values = json.loads(tadam("info", fitted, "--json").out)
    assert values["images_per_class"] == {"arrow": 2, "box": 8, "disc": 8, "wedge": 6}
    assert values["bytes"] == fitted.stat().st_size
    assert values["images"] == 24
    result = tadam("remove", fitted, "wedge", "-o", tmp_path / "small.tadam")
    assert "wedge removed with its 6 photos; 3 classes from 18 images now" in result.out
    small = FewShotClassifier.load(tmp_path / "small.tadam")
    assert small.classes_.tolist() == ["arrow", "box", "disc"]
    assert FewShotClassifier.load(fitted).classes_.tolist() == ["arrow", "box", "disc", "wedge"]
    result = tadam("remove", fitted, "arrow", "--json")
    assert json.loads(result.out)["removed"] == "arrow"
    text = tadam("info", fitted).out
    for words in ("3, with 6 to 8 photos each", "m.safetensors", "pixels", "written 20"):
        assert words in text


def test_photos_that_it_had_already_are_told(
    tadam: CommandLine, fitted: Path, photos: Path
) -> None:
    result = tadam("add", fitted, photos, "--json")
    assert json.loads(result.out)["had_already"] == 18
    assert result.err == "note: 18 photos are the same as others that it had already\n"


def test_a_change_that_fails_leaves_the_file_alone(
    tadam: CommandLine, fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fitted.read_bytes()
    one = tmp_path / "one" / "star"
    one.mkdir(parents=True)
    photo("box", 1).save(one / "a.png")
    (one / "b.png").write_text("x")
    assert_one_sentence(tadam("add", fitted, one.parent, "--strict"), "b.png")
    assert_one_sentence(tadam("add", fitted, tmp_path / "no"), "does not exist")
    assert_one_sentence(tadam("remove", fitted, "dics"), "no class 'dics': did you mean 'disc'?")
    assert_one_sentence(tadam("remove", fitted, "xyz"), f"'tadam info {fitted}' lists them")
    (tmp_path / "there.tadam").touch()
    there = ("-o", tmp_path / "there.tadam")
    assert_one_sentence(tadam("remove", fitted, "disc", *there), "exists", "--force")
    assert_one_sentence(tadam("add", fitted, one.parent, *there), "exists", "--force")

    def full(*arguments: object, **options: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(modelfile, "save_file", full)
    assert tadam("add", fitted, one.parent).code == 1
    assert fitted.read_bytes() == before
    assert sorted(f.name for f in fitted.parent.glob(".*")) == []


def test_help_of_the_photo_commands_fits_a_screen(tadam: CommandLine) -> None:
    for command in ("add", "info", "remove", "check"):
        result = tadam(command, "--help")
        assert result.code == 0
        assert result.out.count("\n") <= 40


def test_two_adds_at_the_same_time_keep_all_photos(
    tadam: CommandLine, fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second begins once the first has read the file, and gets as far as it can."""
    read, acquire = read_labelled, FileLock.acquire
    stuck_or_done = threading.Event()

    def second() -> None:
        try:
            classifier_files.add(fitted, write_photos(tmp_path / "b", each=1, start=400))
        finally:
            stuck_or_done.set()

    other = threading.Thread(target=second)

    def acquiring(*arguments: Any, **options: Any) -> Any:
        if threading.current_thread() is other:
            stuck_or_done.set()
        return acquire(*arguments, **options)

    def reading(*arguments: Any) -> Any:
        if threading.current_thread() is not other:
            other.start()
            assert stuck_or_done.wait(60)
        return read(*arguments)

    monkeypatch.setattr(classifier_files, "read_labelled", reading)
    monkeypatch.setattr(FileLock, "acquire", acquiring)
    assert tadam("add", fitted, write_photos(tmp_path / "a", each=2, start=300)).code == 0
    other.join()
    assert FewShotClassifier.load(fitted).shots_.tolist() == [6 + 2 + 1] * 3
    assert [file.name for file in tmp_path.glob(".*")] == []


def test_a_file_that_another_command_changes_is_left_alone(
    tadam: CommandLine, fitted: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classifier_files, "PATIENCE", 0)
    before = fitted.read_bytes()
    with folder_lock.locked(fitted.with_name(f".{fitted.name}.lock"), fitted):
        for command in (["add", fitted, photos], ["remove", fitted, "disc"]):
            assert_one_sentence(tadam(*command), f"is still writing to {fitted}: wait", code=1)
    assert fitted.read_bytes() == before
