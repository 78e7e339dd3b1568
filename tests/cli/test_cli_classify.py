"""`tadam fit`, `predict` and `evaluate FILE.tadam`, from a folder of photos to a sorted one."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bad_files import CORPUS
from command_line import CommandLine, Result, assert_one_sentence
from photos import SUBJECTS, photo, write_photos


def test_photos_are_sorted_by_three_commands(
    tadam: CommandLine, photos: Path, labelled: Path, model: Path, tmp_path: Path
) -> None:
    file, table, page = (tmp_path / name for name in ("photos.tadam", "out.csv", "page.html"))
    result = tadam("fit", photos, "-o", file, "--model", model)
    assert result.code == 0
    assert "3 classes from 18 images" in result.out
    result = tadam("predict", file, labelled, "--csv", table, "--report", page)
    assert result.code == 0
    assert result.err == ""
    for subject in SUBJECTS:
        assert f"\n{subject} " in f"\n{result.out}"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    with open(table, newline="", encoding="utf-8") as rows:
        read = list(csv.DictReader(rows))
    assert len(read) == 18
    for row in read:
        assert row["label"] == Path(row["path"]).parent.name
        shares = [float(row[f"p({subject})"]) for subject in SUBJECTS]
        assert sum(shares) == pytest.approx(1, abs=1e-4)
        assert float(row["confidence"]) == max(shares)
    result = tadam("evaluate", file, labelled)
    assert result.code == 0
    assert "100.0 %" in result.out
    assert "true \\ answer" in result.out


def test_results_come_as_json(
    tadam: CommandLine, photos: Path, labelled: Path, model: Path, tmp_path: Path
) -> None:
    file = tmp_path / "photos.tadam"
    result = tadam("fit", photos, "-o", file, "--model", model, "--json")
    values = json.loads(result.out)
    assert values["classes"] == ["box", "disc", "wedge"]
    assert values["images"] == 18
    assert values["skipped"] == []
    values = json.loads(tadam("predict", file, labelled / "box", "--json").out)
    assert [p["label"] for p in values["predictions"]] == ["box"] * 6
    assert set(values["predictions"][0]["probabilities"]) == set(SUBJECTS)
    values = json.loads(tadam("evaluate", file, labelled, "--json").out)
    assert values["accuracy"] == 1.0
    assert values["per_class"] == {"box": 1.0, "disc": 1.0, "wedge": 1.0}
    assert values["confusion"] == [[6, 0, 0], [0, 6, 0], [0, 0, 6]]
    assert values["images"] == 18


def test_a_confusion_is_in_the_right_cell(tadam: CommandLine, fitted: Path, tmp_path: Path) -> None:
    (tmp_path / "labelled" / "disc").mkdir(parents=True)
    photo("disc", 200).save(tmp_path / "labelled" / "disc" / "a.png")
    photo("wedge", 200).save(tmp_path / "labelled" / "disc" / "b.png")  # mislabelled
    values = json.loads(tadam("evaluate", fitted, tmp_path / "labelled", "--json").out)
    assert values["confusion"] == [[0, 0, 0], [0, 1, 1], [0, 0, 0]]
    assert values["per_class"] == {"disc": 0.5}
    table = tadam("evaluate", fitted, tmp_path / "labelled")
    assert "50.0 %" in table.out


def test_broken_files_are_told_and_skipped_or_stop_the_run(
    tadam: CommandLine, photos: Path, model: Path, tmp_path: Path
) -> None:
    mixed = write_photos(tmp_path / "mixed", each=3)
    (mixed / "box" / "bad.jpg").write_text("x")
    file = tmp_path / "photos.tadam"
    strict = tadam("fit", mixed, "-o", file, "--model", model, "--strict")
    assert_one_sentence(strict, "bad.jpg", "remove or replace it")
    assert not file.exists()
    result = tadam("fit", mixed, "-o", file, "--model", model)
    assert result.code == 0
    assert result.err.startswith("skipped: ")
    assert "9 images" in result.out
    result = tadam("predict", file, mixed, "--json")
    assert result.code == 0
    assert len(json.loads(result.out)["skipped"]) == 1
    assert_one_sentence(tadam("predict", file, mixed, "--strict"), "bad.jpg")
    assert_one_sentence(tadam("evaluate", file, mixed, "--strict"), "bad.jpg")
    assert json.loads(tadam("evaluate", file, mixed, "--json").out)["images"] == 9


@pytest.mark.skipif(os.name == "nt", reason="the corpus has pipes and symbolic links")
@pytest.mark.filterwarnings("ignore")
def test_a_folder_full_of_bad_files_is_predicted_as_far_as_it_goes(
    tadam: CommandLine, fitted: Path, tmp_path: Path
) -> None:
    (tmp_path / "corpus").mkdir()
    for name, (make, _) in CORPUS.items():
        make(tmp_path / "corpus" / name)
    result = tadam("predict", fitted, tmp_path / "corpus", "--json")
    assert result.code == 0
    good = {Path(p["path"]).name for p in json.loads(result.out)["predictions"]}
    assert {name for name, (_, ok) in CORPUS.items() if ok} <= good
    shown = [line for line in result.err.splitlines() if line.startswith("skipped: ")]
    assert 10 < len(shown) <= 21  # twenty, and how many more


def test_far_images_are_unknown_only_if_asked(
    tadam: CommandLine, fitted: Path, tmp_path: Path
) -> None:
    dice = np.random.default_rng(0)
    Image.fromarray(dice.integers(0, 256, (50, 50, 3), np.uint8)).save(tmp_path / "noise.png")
    plain = json.loads(tadam("predict", fitted, tmp_path / "noise.png", "--json").out)
    assert plain["predictions"][0]["label"] in SUBJECTS
    for options in (["--reject"], ["--reject-threshold", 1e-9]):
        result = tadam("predict", fitted, tmp_path / "noise.png", *options, "--json")
        assert json.loads(result.out)["predictions"][0]["label"] == "unknown"
        assert json.loads(result.out)["predictions"][0]["unknown"] is True
    result = tadam("predict", fitted, tmp_path / "noise.png", "--reject-threshold", 1e9, "--json")
    assert json.loads(result.out)["predictions"][0]["label"] in SUBJECTS
    assert "unknown" in tadam("predict", fitted, tmp_path / "noise.png", "--reject").out


def test_files_and_folders_can_be_mixed(tadam: CommandLine, fitted: Path, labelled: Path) -> None:
    one = labelled / "disc" / "100.jpg"
    values = json.loads(tadam("predict", fitted, one, labelled / "box", "--json").out)
    assert [p["label"] for p in values["predictions"]] == ["disc"] + ["box"] * 6


def test_an_existing_file_is_only_replaced_with_force(
    tadam: CommandLine, fitted: Path, photos: Path, model: Path, tmp_path: Path
) -> None:
    before = fitted.read_bytes()
    again = ("fit", photos, "-o", fitted, "--model", model)
    assert_one_sentence(tadam(*again), "exists", "--force")
    assert fitted.read_bytes() == before
    assert tadam(*again, "--force").code == 0
    (tmp_path / "out.csv").write_text("mine")
    table = ("predict", fitted, photos, "--csv", tmp_path / "out.csv")
    assert_one_sentence(tadam(*table), "out.csv", "--force")
    assert (tmp_path / "out.csv").read_text() == "mine"
    assert tadam(*table, "--force").code == 0


def test_a_file_that_cannot_be_written_is_refused_before_any_work(
    tadam: CommandLine, fitted: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fitted.read_bytes()
    (tmp_path / "empty").mkdir()
    predict = ("predict", fitted, tmp_path / "empty", "--force")  # never looked into
    assert_one_sentence(
        tadam("fit", tmp_path / "empty", "-o", tmp_path), "is a folder: name a file in it"
    )
    assert_one_sentence(tadam(*predict, "--csv", tmp_path), "is a folder: name a file in it")
    assert_one_sentence(
        tadam(*predict, "--csv", fitted / "x" / "y.csv"), "y.csv cannot", "photos.tadam is not a"
    )
    same = ("--csv", tmp_path / "x", "--report", tmp_path / "a" / ".." / "x")
    assert_one_sentence(tadam(*predict, *same), "is named for two outputs")
    assert_one_sentence(tadam(*predict, "--csv", fitted), "is the classifier itself")
    assert fitted.read_bytes() == before
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    assert_one_sentence(
        tadam(*predict, "--csv", tmp_path / "new" / "x.csv"), f"you may not write in {tmp_path}"
    )


def test_what_was_skipped_is_told_even_if_nothing_is_left(
    tadam: CommandLine, fitted: Path, model: Path, tmp_path: Path
) -> None:
    broken = _folder(tmp_path / "broken", "box", "disc")
    for image in broken.glob("*/*"):
        image.write_text("x")
    new = tmp_path / "new.tadam"
    for command in (
        ("fit", broken, "-o", new, "--model", model),
        ("predict", fitted, broken),
        ("evaluate", fitted, broken),
    ):
        result = tadam(*command)
        assert result.code == 2
        *skipped, error = result.err.splitlines()
        assert [line.startswith("skipped: ") for line in skipped] == [True, True]
        assert error.startswith("error: ")


def test_files_that_are_not_images_by_name_are_told(
    tadam: CommandLine, fitted: Path, model: Path, tmp_path: Path
) -> None:
    folder = _folder(tmp_path / "mixed", "box", "disc")
    (folder / "box" / "r.txt").touch()
    (folder / "splits.toml").touch()
    words = f"files under {folder}: 1 without an image extension, such as r.txt"
    result = tadam("fit", folder, "-o", tmp_path / "new.tadam", "--model", model, "--json")
    assert json.loads(result.out)["skipped"] == [words]
    assert result.err == f"skipped: {words}\n"
    result = tadam("predict", fitted, folder / "box", "--strict", "--json")
    assert json.loads(result.out)["skipped"] == [words.replace(str(folder), str(folder / "box"))]
    (folder / "box" / "a.png").unlink()
    result = tadam("predict", fitted, folder / "box")
    assert result.err.splitlines()[0].startswith("skipped: ")
    assert result.err.splitlines()[1].startswith("error: there are no images")


def test_few_images_get_a_row_each_and_many_a_summary(
    tadam: CommandLine, labelled: Path, model: Path, tmp_path: Path
) -> None:
    folder = _folder(tmp_path / "many", *(f"class {k}" for k in range(13)))
    file = tmp_path / "many.tadam"
    assert tadam("fit", folder, "-o", file, "--model", model).code == 0
    one = folder / "class 3" / "a.png"
    result = tadam("predict", file, one)
    assert result.out == f"class 0    7.7 %  {one}\n"
    result = tadam("predict", file, one, "--json")
    assert json.loads(result.out)["predictions"][0]["unknown"] is False
    result = tadam("predict", file, *[one] * 21)
    assert "mean confidence" in result.out
    assert "class 0" in result.out
    assert "class 1 " not in result.out


def test_a_class_called_unknown_is_no_promise_of_rejection(
    tadam: CommandLine, model: Path, tmp_path: Path
) -> None:
    folder = _folder(tmp_path / "two", "unknown", "cat")
    result = tadam("fit", folder, "-o", tmp_path / "x.tadam", "--model", model)
    assert result.code == 0
    assert "--reject will not work, because a class is called 'unknown'" in result.out


def _folder(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).mkdir(parents=True)
        Image.new("RGB", (20, 20), "red").save(root / name / "a.png")
    return root


def test_folders_that_make_no_classifier_are_one_sentence(
    tadam: CommandLine, model: Path, tmp_path: Path
) -> None:
    def fit(folder: Path) -> Result:
        return tadam("fit", folder, "-o", tmp_path / "x.tadam", "--model", model)

    assert_one_sentence(fit(tmp_path / "nowhere"), "nowhere", "does not exist")
    (tmp_path / "empty").mkdir()
    assert_one_sentence(fit(tmp_path / "empty"), "no sub-folders")
    assert_one_sentence(fit(_folder(tmp_path / "one", "cat")), "only one class, 'cat'")
    (_folder(tmp_path / "two", "cat", "dog") / "fox").mkdir()
    assert_one_sentence(fit(tmp_path / "two"), "fox", "has no images")
    broken = _folder(tmp_path / "broken", "cat", "dog")
    (broken / "dog" / "a.png").write_text("x")
    result = fit(broken)
    assert result.code == 2
    assert result.err.splitlines()[-1].startswith("error: no image of class 'dog' can be read")
    assert not (tmp_path / "x.tadam").exists()


def test_other_mistakes_are_one_sentence(
    tadam: CommandLine, fitted: Path, photos: Path, model: Path, tmp_path: Path
) -> None:
    file = tmp_path / "x.tadam"
    result = tadam("fit", photos, "-o", file, "--model", "no-such-model")
    assert_one_sentence(result, "no model 'no-such-model'", "shipped")
    assert_one_sentence(tadam("predict", file, photos), "x.tadam does not exist")
    assert_one_sentence(tadam("predict", model, photos), "is a model, not a classifier")
    page = photos / "box" / "1.png"
    assert_one_sentence(tadam("predict", page, photos), "1.png is an image, not a classifier")
    assert_one_sentence(tadam("evaluate", page, photos), "1.png is an image, not a classifier")
    assert_one_sentence(tadam("predict", photos, photos), "is a folder, not a classifier")
    assert_one_sentence(tadam("fit", page, "-o", file), "is a file: give a folder")
    result = tadam("fit", photos, "-o", file, "--model", fitted)
    assert_one_sentence(result, "is a classifier, not a model")
    assert_one_sentence(tadam("predict", fitted, tmp_path / "no"), "does not exist")
    (tmp_path / "empty").mkdir()
    assert_one_sentence(tadam("predict", fitted, tmp_path / "empty"), "no images")
    both = ("FILE.tadam FOLDER", "--dataset NAME")
    assert_one_sentence(tadam("evaluate", fitted), f"'tadam evaluate {fitted} FOLDER'")
    assert_one_sentence(tadam("evaluate", fitted, photos, "--dataset", "shapes"), *both)
    assert_one_sentence(tadam("evaluate", model, photos), "is a model, not a classifier")
    for name in ("fc100", tmp_path, file):
        assert_one_sentence(tadam("evaluate", name, photos), "there is no classifier", "--dataset")
    result = tadam("evaluate", fitted, "--dataset", "shapes")
    assert_one_sentence(result, "is a classifier, not a model")
    for name in ("way", "shot", "tasks", "queries", "seed"):
        result = tadam("evaluate", fitted, photos, f"--{name}", 5)
        assert_one_sentence(result, f"--{name} is for a model")
    assert_one_sentence(tadam("evaluate", fitted, photos, "--split", "test"), "--split")
    renamed = fitted.rename(tmp_path / "no_suffix")
    assert tadam("evaluate", renamed, photos).code == 0
    renamed.rename(fitted)
    other = _folder(tmp_path / "other", "cat", "dog")
    assert_one_sentence(tadam("evaluate", fitted, other), "cat", "box, disc, wedge")
    assert_one_sentence(
        tadam("fit", photos, "-o", file, "--device", "tpu", "--model", model), "tpu"
    )
    assert tadam("fit", photos).code == 2  # where to?
    assert tadam("predict", fitted).code == 2  # what?
    assert tadam("predict", fitted, photos, "--reject-threshold", -1).code == 2


def test_a_tampered_file_is_refused(tadam: CommandLine, fitted: Path, photos: Path) -> None:
    content = bytearray(fitted.read_bytes())
    content[-1] ^= 1
    fitted.write_bytes(content)
    assert_one_sentence(tadam("predict", fitted, photos), "has been changed")


def test_names_that_are_not_text_or_look_like_markup_are_no_problem(
    tadam: CommandLine, model: Path, tmp_path: Path
) -> None:
    names = ["[red]x[bold]", 'a,b"c', "Ω ±"]
    if os.name != "nt":
        names.append(os.fsdecode(b"caf\xe9"))
    folder = _folder(tmp_path / "odd", *names)
    file = tmp_path / "odd.tadam"
    assert tadam("fit", folder, "-o", file, "--model", model).code == 0
    result = tadam("predict", file, folder, "--csv", tmp_path / "odd.csv")
    assert result.code == 0
    assert "[red]x[bold]" in result.out
    with open(tmp_path / "odd.csv", newline="", encoding="utf-8") as rows:
        assert len(list(csv.reader(rows))) == 1 + len(names)
    assert tadam("predict", file, folder, "--json").code == 0
    assert tadam("evaluate", file, folder).code == 0


def test_help_fits_a_screen_and_needs_no_torch(tadam: CommandLine) -> None:
    for command in ("fit", "predict", "evaluate"):
        result = tadam(command, "--help")
        assert result.code == 0
        assert result.out.count("\n") <= 40
    check = "import sys, tadam.cli.app; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
