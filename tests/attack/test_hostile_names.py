"""Names that would act on a terminal or in a spreadsheet, and paths that are none."""

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from command_line import CommandLine, assert_one_sentence
from tadam import FewShotClassifier, UserError
from tiny import write_image_folder
from toy_backbones import Colours, blobs

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")

ESCAPE = "\x1b]0;gotcha\x07\x1b[2J"


@pytest.fixture(scope="module")
def classifier() -> FewShotClassifier:
    return FewShotClassifier(Colours()).fit(*blobs(3, 4))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of a folder with hostile class names."""
    folder = tmp_path_factory.mktemp("names")
    photos = write_image_folder(folder / "photos", classes=3, images=2)
    for old, new in zip(
        sorted(photos.iterdir()), (f"a{ESCAPE}", "=1+1", "line\nbreak"), strict=True
    ):
        old.rename(old.with_name(new))
    FewShotClassifier("fc100", device="cpu").fit(photos).save(folder / "c.tadam")
    return folder / "c.tadam"


def test_no_control_character_of_a_name_reaches_the_terminal(
    fitted: Path, tmp_path: Path, tadam: CommandLine
) -> None:
    photos = tmp_path / f"{ESCAPE}photos"
    photos.mkdir()
    Image.new("RGB", (20, 20), "red").save(photos / f"good{ESCAPE}.png")
    (photos / f"bad{ESCAPE}.png").write_text("not an image")
    (photos / f"note{ESCAPE}\n.txt").write_text("not an image")
    for command in (
        ["predict", fitted, photos],
        ["predict", fitted, photos, "--top", "3", "--csv", tmp_path / f"{ESCAPE}.csv"],
        ["predict", fitted, *[photos / f"good{ESCAPE}.png"] * 25],
        ["evaluate", fitted, fitted.parent / "photos"],
        ["predict", fitted, tmp_path / f"no{ESCAPE}.png"],
        ["predict", tmp_path / f"no{ESCAPE}.tadam", photos],
        ["fit", tmp_path / f"no{ESCAPE}", "-o", tmp_path / "x.tadam"],
    ):
        done = tadam(*command)
        assert "\\x1b" in done.out + done.err
        assert not {letter for letter in done.out + done.err if letter < " "} - {"\n"}, command
    assert_one_sentence(tadam("predict", fitted, tmp_path / "two\nlines"), "two\\nlines")


def test_what_was_typed_is_shown_as_escapes_too(tadam: CommandLine) -> None:
    typed = "a\x1b[31m\u202e\x9bb"
    for command in ([f"--{typed}"], [typed], ["data", typed], ["fit", f"--{typed}"]):
        done = tadam(*command)
        assert done.code == 2
        assert "a\\x1b[31m\\u202e\\x9bb" in done.err
        assert not {"\x1b", "\u202e", "\x9b"} & set(done.err)


def test_lists_of_mistakes_and_of_suggestions_have_no_formula(
    fitted: Path, tmp_path: Path, tadam: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = Path(shutil.copytree(fitted.parent / "photos", tmp_path / "=photos"))
    monkeypatch.chdir(tmp_path)
    for number, command in enumerate(
        (["evaluate", fitted, photos.name], ["suggest", fitted, photos.name])
    ):
        done = tadam(*command, "--csv", f"{number}.csv")
        assert done.code == 0, done.err
        with open(f"{number}.csv", newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert "'=1+1" in cells
        assert not [cell for cell in cells if cell[:1] in ("=", "+", "@")]
    with open("0.csv", newline="") as file:
        assert {row["path"][:2] for row in csv.DictReader(file)} == {"'="}


def test_a_csv_file_has_no_formula_and_json_has_the_exact_name(
    fitted: Path, tmp_path: Path, tadam: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("=1+1.png", "+a.png", "@b.png", "c.png"):
        Image.new("RGB", (20, 20), "red").save(name)
    names = ["=1+1.png", "+a.png", "@b.png", "c.png"]
    for more in ([], ["--top", "2"]):
        done = tadam("predict", fitted, *names, "--csv", "out.csv", "--json", "--force", *more)
        assert done.code == 0, done.err
        with open("out.csv", newline="") as file:
            rows = list(csv.reader(file))[1:]
        assert [row[0] for row in rows] == ["'=1+1.png", "'+a.png", "'@b.png", "c.png"]
        assert not [cell for row in rows for cell in row if cell[:1] in "=+-@" and cell]
        said = json.loads(done.out)["predictions"]
        assert [p["path"] for p in said] == names
        assert "=1+1" in {name for p in said for name in p["probabilities"]} or more


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Photos of two classes, one with a sub-folder that may not be read: root could."""
    photos = write_image_folder(tmp_path / "photos", classes=2, images=2)
    folder = photos / "class00" / "closed"
    folder.mkdir()
    Image.new("RGB", (20, 20)).save(folder / "a.png")
    scandir = os.scandir

    def refusing(path: Any = ".") -> Any:
        if os.fspath(path) == str(folder):
            raise PermissionError(13, "Permission denied", str(folder))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    return photos


def test_a_folder_that_may_not_be_read_is_named(
    closed: Path, fitted: Path, tmp_path: Path, tadam: CommandLine, classifier: FewShotClassifier
) -> None:
    name = str(closed / "class00" / "closed")
    done = tadam("predict", fitted, closed)
    assert done.code == 0
    assert f"1 in folders that cannot be read, such as {name}" in done.err
    done = tadam("predict", fitted, closed, "--out", tmp_path / "parts", "--format", "csv")
    assert done.code == 0
    assert f"1 in folders that cannot be read, such as {name}" in done.err
    with pytest.raises(UserError, match=f"{name} cannot be read"):
        classifier.predict(closed)
    with pytest.raises(UserError, match=f"{name} cannot be read"):
        FewShotClassifier(Colours()).fit(closed)


def test_what_is_no_path_no_label_and_no_number_is_a_sentence(
    tmp_path: Path, classifier: FewShotClassifier
) -> None:
    images, labels = blobs(2, 2)
    long = tmp_path / ("x" * 300)
    acts: list[Callable[[], object]] = [
        lambda: classifier.predict(""),
        lambda: classifier.predict([""]),
        lambda: classifier.predict("\0"),
        lambda: classifier.predict(["a\0.png"]),
        lambda: classifier.predict(str(long)),
        lambda: classifier.predict([long]),
        lambda: classifier.predict([b"bytes.png"]),
        lambda: classifier.fit(images, dict.fromkeys(range(4), "a")),
        lambda: classifier.fit(images, {"a", "b", "c", "d"}),
        lambda: classifier.fit(images, b"abcd"),
        lambda: FewShotClassifier(Colours(), alpha=10**400).fit(images, labels),
        lambda: FewShotClassifier(Colours(), alpha=10**5000).fit(images, labels),
        lambda: FewShotClassifier(Colours(), reject_threshold=10**400).fit(images, labels),
        lambda: classifier.save(tmp_path),
        lambda: classifier.save(long),
        lambda: classifier.save(tmp_path / "a\0.tadam"),
        lambda: FewShotClassifier.load(tmp_path / "a\0.tadam"),
        lambda: FewShotClassifier.load(long),
        lambda: FewShotClassifier.load(""),
    ]
    for number, act in enumerate(acts):
        with pytest.raises(UserError) as caught:
            act()
        assert "\n" not in str(caught.value), number
    assert os.listdir(tmp_path) == []
    np.testing.assert_array_equal(classifier.classes_, ["c0", "c1", "c2"])  # still as it was


def test_paths_that_are_too_long_are_a_sentence_on_the_command_line(
    fitted: Path, tmp_path: Path, tadam: CommandLine
) -> None:
    long = tmp_path / ("x" * 300)
    photo = tmp_path / "a.png"
    Image.new("RGB", (20, 20)).save(photo)
    for command in (
        ["predict", fitted, long],
        ["predict", long, photo],
        ["predict", fitted, photo, "--csv", long],
        ["fit", long, "-o", tmp_path / "c.tadam"],
        ["fit", fitted.parent / "photos", "-o", long],
        ["train", long, "--out", tmp_path / "run"],
        ["evaluate", fitted, long],
    ):
        assert_one_sentence(tadam(*command), "x" * 300)


TIFF = """
import sys
from pathlib import Path
from tadam.data.decode import decode
from tadam.errors import UserError
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        decode(path, 16)
    except UserError:
        pass
"""


def test_libtiff_says_nothing_of_its_own(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.tiff", compression="tiff_lzw")
    content = bytearray((tmp_path / "a.tiff").read_bytes())
    for number in range(20):
        damaged = bytearray(content)
        damaged[100 + 40 * number : 140 + 40 * number] = b"\xff" * 40
        (tmp_path / f"{number}.tiff").write_bytes(damaged)
    done = subprocess.run(
        [sys.executable, "-c", TIFF, tmp_path], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
