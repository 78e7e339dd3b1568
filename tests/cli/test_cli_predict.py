"""`tadam predict`: the most probable classes, and what Ctrl-C leaves behind."""

import csv
import json
import os
import signal
from pathlib import Path

import pytest
from PIL import Image

from command_line import CommandLine, assert_one_sentence
from photos import SUBJECTS, photo
from tadam import FewShotClassifier
from tadam.classify import reading


@pytest.fixture
def mixture(tmp_path: Path) -> Path:
    """Halfway between a disc and a box, so that no class is certain."""
    file = tmp_path / "mixture.png"
    disc, box = (photo(subject, 7).resize((50, 50)) for subject in ("disc", "box"))
    Image.blend(disc, box, 0.5).save(file)
    return file


def test_the_most_probable_classes_are_given_in_their_order(
    tadam: CommandLine, fitted: Path, mixture: Path, tmp_path: Path
) -> None:
    classifier = FewShotClassifier.load(fitted)
    (shares,) = classifier.predict_proba([mixture]).tolist()
    ranked = sorted(zip(shares, classifier.classes_.tolist(), strict=True), reverse=True)
    table = tmp_path / "top.csv"

    result = tadam("predict", fitted, mixture, "--top", 2, "--csv", table)
    words = [f"{name} {100 * share:.1f} %" for share, name in ranked[:2]]
    assert " ".join(result.out.splitlines()[0].split()) == f"{' '.join(words)} {mixture}"

    with open(table, newline="", encoding="utf-8") as rows:
        (row,) = csv.DictReader(rows)
    columns = ["path", "label", "confidence", "strangeness", "class1", "p1", "class2", "p2"]
    assert list(row) == columns
    assert [row["class1"], row["class2"]] == [name for _, name in ranked[:2]]
    assert [float(row[p]) for p in ("p1", "p2")] == pytest.approx([s for s, _ in ranked[:2]], 1e-4)

    (found,) = json.loads(tadam("predict", fitted, mixture, "--top", 2, "--json").out)[
        "predictions"
    ]
    assert list(found["probabilities"]) == [name for _, name in ranked[:2]]
    assert found["label"] == ranked[0][1]

    many = json.loads(tadam("predict", fitted, mixture, "--top", 99, "--json").out)
    assert list(many["predictions"][0]["probabilities"]) == [name for _, name in ranked]
    assert tadam("predict", fitted, mixture, "--top", 0).code == 2


def test_with_top_every_image_has_a_line_and_an_unknown_one_says_so(
    tadam: CommandLine, fitted: Path, mixture: Path
) -> None:
    result = tadam("predict", fitted, *[mixture] * 25, "--top", 2, "--reject-threshold", 1e-9)
    lines = result.out.splitlines()
    assert len(lines) == 25
    assert lines[0].split()[:2] == ["unknown", "-"]
    assert lines[0].split()[2] in SUBJECTS
    assert lines[0].split()[4] == "%"


def test_ctrl_c_keeps_what_was_done_and_says_how_much(
    tadam: CommandLine, fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for i in range(150):
        photo("box", i).resize((16, 16)).save(folder / f"{i:03}.png")
    monkeypatch.setattr(reading, "_PIXELS_AT_ONCE", 1)  # batches of 64
    joined = reading._joined

    def interrupted(parts: list[reading.Prepared]) -> reading.Prepared:
        os.kill(os.getpid(), signal.SIGINT)  # while the first batch is under way
        return joined(parts)

    monkeypatch.setattr(reading, "_joined", interrupted)
    table, page = tmp_path / "x.csv", tmp_path / "x.html"
    result = tadam("predict", fitted, folder, "--csv", table, "--report", page, "--json")
    assert result.code == 1
    done = len(json.loads(result.out)["predictions"])
    assert 64 <= done < 150
    assert result.err == f"stopped after {done} of 150 images; the results cover only these\n"
    with open(table, newline="", encoding="utf-8") as rows:
        assert [row["path"] for row in csv.DictReader(rows)] == [
            str(folder / f"{i:03}.png") for i in range(done)
        ]
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_missing_input_is_told_before_an_existing_output(
    tadam: CommandLine, fitted: Path, photos: Path, tmp_path: Path
) -> None:
    there, nowhere = tmp_path / "there.x", tmp_path / "nowhere"
    there.write_text("mine")
    table = ("--csv", there)
    assert_one_sentence(tadam("predict", nowhere, photos, *table), "nowhere does not exist")
    assert_one_sentence(tadam("predict", fitted, nowhere, *table), "nowhere does not exist")
    assert_one_sentence(tadam("predict", fitted, photos, *table), "there.x exists")
    assert_one_sentence(tadam("fit", nowhere, "-o", there), "nowhere does not exist")
    result = tadam("fit", photos, "-o", there, "--model", nowhere)
    assert_one_sentence(result, "there is no model", "nowhere")
    assert_one_sentence(tadam("fit", photos, "-o", there), "there.x exists")
    assert_one_sentence(tadam("export", nowhere, "-o", there), "nowhere does not exist")
    assert_one_sentence(tadam("export", fitted, "-o", there), "there.x exists")
    assert_one_sentence(tadam("evaluate", fitted, nowhere), "nowhere does not exist")
    assert there.read_text() == "mine"
