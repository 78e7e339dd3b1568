"""What `tadam fit` takes: nested folders, lists, zips and HEIC, and what it says of them."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image

from command_line import CommandLine, assert_one_sentence
from photos import SUBJECTS, photo
from tadam.data import heic


@pytest.fixture
def nested(photos: Path, tmp_path: Path) -> Path:
    """`round/disc`, `edged/box` and `edged/sharp/wedge`."""
    root = tmp_path / "nested"
    shutil.copytree(photos / "disc", root / "round" / "disc")
    shutil.copytree(photos / "box", root / "edged" / "box")
    shutil.copytree(photos / "wedge", root / "edged" / "sharp" / "wedge")
    return root


def test_folders_below_a_class_are_told_and_can_be_classes(
    tadam: CommandLine, nested: Path, model: Path, tmp_path: Path
) -> None:
    fit = ("fit", nested, "-o", tmp_path / "x.tadam", "--model", model, "--force")
    result = tadam(*fit)
    assert result.code == 0
    assert result.err == (
        "note: class 'edged' takes in 2 folders below its own, such as edged/box, and so does "
        "another class: add --nested to make each folder a class\n"
    )
    assert "photos of each class: edged 12, round 6\n" in result.out
    result = tadam(*fit, "--nested")
    assert result.err == ""
    assert "photos of each class: edged/box 6, edged/sharp/wedge 6, round/disc 6\n" in result.out
    shutil.move(nested / "round", nested / "edged" / "round")
    result = tadam(*fit)
    assert result.code == 2
    assert "--nested" in result.err
    assert "only one class, 'edged'" in result.err


def test_a_folder_a_zip_and_lists_of_it_make_the_same_classifier(
    tadam: CommandLine, photos: Path, labelled: Path, model: Path, tmp_path: Path
) -> None:
    archive = shutil.make_archive(str(tmp_path / "photos"), "zip", photos.parent, photos.name)
    files = sorted(photos.glob("*/*"))
    table, lines = photos / "labels.csv", tmp_path / "labels.jsonl"
    rows = [f"{file.relative_to(photos)},{file.parent.name}\n" for file in files]
    table.write_text("".join(["path,label\n", *rows]))
    objects = [json.dumps({"path": str(file), "label": file.parent.name}) for file in files]
    lines.write_text("\n".join(objects))
    answers = []
    for number, given in enumerate((photos, archive, table, lines)):
        file = tmp_path / f"{number}.tadam"
        result = tadam("fit", given, "-o", file, "--model", model, "--json")
        values = json.loads(result.out)
        assert values["classes"] == sorted(SUBJECTS)
        assert values["images_per_class"] == [6, 6, 6]
        answers.append(json.loads(tadam("predict", file, labelled, "--json").out)["predictions"])
    table.unlink()
    assert [p["label"] for p in answers[0]] == [Path(p["path"]).parent.name for p in answers[0]]
    for other in answers[1:]:
        assert [p["label"] for p in other] == [p["label"] for p in answers[0]]
        found = [p["strangeness"] for p in other]
        assert found == pytest.approx([p["strangeness"] for p in answers[0]], abs=1e-3)
    assert_one_sentence(
        tadam("fit", lines, "-o", tmp_path / "y.tadam", "--nested", "--model", model),
        "names the class of each image: leave --nested out",
    )


def test_many_classes_are_shortened(tadam: CommandLine, model: Path, tmp_path: Path) -> None:
    for k in range(30):
        (tmp_path / "many" / f"{k:02} {'long' * 10}").mkdir(parents=True)
        photo("box", k).save(tmp_path / "many" / f"{k:02} {'long' * 10}" / "a.png")
    result = tadam("fit", tmp_path / "many", "-o", tmp_path / "x.tadam", "--model", model)
    (line,) = (row for row in result.out.splitlines() if row.startswith("photos of each class"))
    assert "... 18 more classes ..." in line
    assert line.count("… 1") == 12
    assert len(line) < 600


def test_heic_is_read_with_the_extra_and_told_without(
    tadam: CommandLine, photos: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    pillow_heif.register_heif_opener()
    mixed = tmp_path / "mixed"
    shutil.copytree(photos, mixed)
    photo("box", 50).save(mixed / "box" / "phone.heic", format="HEIF", quality=95)
    shutil.copy(mixed / "box" / "phone.heic", mixed / "box" / "renamed.jpg")
    fit = ("fit", mixed, "-o", tmp_path / "x.tadam", "--model", model, "--json", "--force")
    values = json.loads(tadam(*fit).out)
    assert values["images_per_class"] == [8, 6, 6]
    assert values["skipped"] == []
    (found,) = json.loads(
        tadam("predict", tmp_path / "x.tadam", mixed / "box" / "phone.heic", "--json").out
    )["predictions"]
    assert found["label"] == "box"
    with monkeypatch.context() as patch:
        heic._is_registered.cache_clear()
        patch.setitem(sys.modules, "pillow_heif", None)
        values = json.loads(tadam(*fit).out)
    heic._is_registered.cache_clear()
    assert values["images_per_class"] == [6, 6, 6]
    assert len(values["skipped"]) == 2
    assert (
        "phone.heic is a HEIC photo: run pip install 'tadam-fewshot[heic]'" in values["skipped"][0]
    )


def test_a_damaged_heic_is_one_sentence(tadam: CommandLine, fitted: Path, tmp_path: Path) -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    pillow_heif.register_heif_opener()
    file = tmp_path / "a.heic"
    Image.effect_noise((64, 64), 60).convert("RGB").save(file, format="HEIF")
    file.write_bytes(file.read_bytes()[:-500])
    assert_one_sentence(tadam("predict", fitted, file, "--strict"), "a.heic is damaged")
    file.write_bytes(file.read_bytes()[:40])
    assert_one_sentence(tadam("predict", fitted, file, "--strict"), "a.heic is not an image")
