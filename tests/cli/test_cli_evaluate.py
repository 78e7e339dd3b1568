"""`tadam evaluate FILE.tadam FOLDER`: which files are wrong, and how well "unknown" works."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import roc_auc_score

from command_line import CommandLine, assert_one_sentence
from photos import photo


@pytest.fixture
def judged(labelled: Path, tmp_path: Path) -> Path:
    """18 photos with the right label, two with a wrong one."""
    folder = tmp_path / "judged"
    shutil.copytree(labelled, folder)
    photo("wedge", 200).save(folder / "disc" / "really a wedge.png")
    photo("box", 200).save(folder / "wedge" / "really a box.png")
    return folder


def test_the_wrong_files_are_named_everywhere(
    tadam: CommandLine, fitted: Path, judged: Path, tmp_path: Path
) -> None:
    table, page = tmp_path / "t.csv", tmp_path / "p.html"
    result = tadam("evaluate", fitted, judged, "--csv", table, "--report", page)
    assert result.code == 0
    assert "mistakes, the most confident first:" in result.out
    assert f"{judged / 'disc' / 'really a wedge.png'}: disc taken for wedge, " in result.out
    with open(table, newline="", encoding="utf-8") as rows:
        read = list(csv.DictReader(rows))
    assert len(read) == 20
    wrong = [row for row in read if row["right"] == "no"]
    assert wrong == read[:2]  # first
    assert {(row["label"], row["answer"]) for row in wrong} == {("disc", "wedge"), ("wedge", "box")}
    assert {Path(row["path"]).name for row in wrong} == {"really a wedge.png", "really a box.png"}
    assert float(wrong[0]["confidence"]) >= float(wrong[1]["confidence"])
    text = page.read_text(encoding="utf-8")
    assert 'href="judged/disc/really%20a%20wedge.png"' in text
    assert text.count('class="tile"') == 2
    assert "90% are classified correctly" in text
    values = json.loads(tadam("evaluate", fitted, judged, "--json").out)
    assert {Path(m["path"]).name for m in values["mistakes"]} == {
        "really a wedge.png",
        "really a box.png",
    }
    assert "rejection" not in values
    assert_one_sentence(tadam("evaluate", fitted, judged, "--csv", table), "exists", "--force")
    assert_one_sentence(tadam("evaluate", fitted, judged, "--csv", fitted), "classifier itself")


def _rows(tadam: CommandLine, table: Path, *arguments: object) -> list[dict[str, str]]:
    assert tadam("evaluate", *arguments, "--csv", table).code == 0
    with open(table, newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def test_rejection_is_measured_on_a_folder_called_unknown(
    tadam: CommandLine, fitted: Path, judged: Path, tmp_path: Path
) -> None:
    alone = json.loads(tadam("evaluate", fitted, judged, "--reject", "--json").out)["rejection"]
    assert alone["unknown"] == 0
    assert alone["caught"] is alone["auroc"] is None
    assert "folder called unknown" in tadam("evaluate", fitted, judged, "--reject").out
    (judged / "unknown").mkdir()
    dice = np.random.default_rng(0)
    for i in range(5):
        noise = dice.integers(0, 256, (40, 40, 3), np.uint8)
        Image.fromarray(noise).save(judged / "unknown" / f"{i}.png")
    plain = _rows(tadam, tmp_path / "plain.csv", fitted, judged, "--reject")
    usual = min(plain, key=lambda row: float(row["strangeness"]) + (row["label"] == "unknown"))
    shutil.copy(usual["path"], judged / "unknown" / f"not odd at all{Path(usual['path']).suffix}")
    assert_one_sentence(tadam("evaluate", fitted, judged), "of no class, add --reject")
    read = _rows(tadam, tmp_path / "t.csv", fitted, judged, "--reject")
    values = json.loads(tadam("evaluate", fitted, judged, "--reject", "--json").out)
    assert values["images"] == 20
    assert values["accuracy"] == 0.9  # of the known classes, as without --reject
    known = [row for row in read if row["label"] != "unknown"]
    others = [row for row in read if row["label"] == "unknown"]
    kept = [row for row in known if row["rejected"] == "no"]
    right = [row for row in kept if row["label"] == row["answer"]]
    found = values["rejection"]
    assert (found["known"], found["unknown"]) == (20, 6)
    assert found["kept"] == pytest.approx(len(kept) / 20)
    assert found["right_of_kept"] == pytest.approx(len(right) / len(kept))
    assert found["caught"] == pytest.approx(sum(row["rejected"] == "yes" for row in others) / 6)
    strangeness = [float(row["strangeness"]) for row in known + others]
    assert found["auroc"] == pytest.approx(roc_auc_score([0] * 20 + [1] * 6, strangeness))
    assert found["auroc"] > 0.7
    page = tmp_path / "p.html"
    result = tadam("evaluate", fitted, judged, "--reject", "--report", page)
    assert "--reject catches " in result.out
    assert "unknown/not%20odd%20at%20all" in page.read_text(encoding="utf-8")


def test_options_of_the_other_kind_of_evaluation_are_refused(
    tadam: CommandLine, fitted: Path, photos: Path, tmp_path: Path
) -> None:
    for option in (["--reject"], ["--csv", tmp_path / "x"], ["--nested"], ["--strict"]):
        result = tadam("evaluate", "fc100", "--dataset", "shapes", *option)
        assert_one_sentence(result, f"{option[0]} is for a classifier on a folder")
    help_text = tadam("evaluate", "--help").out
    assert help_text.count("\n") <= 40
