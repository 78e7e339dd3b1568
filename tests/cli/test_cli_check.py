"""`tadam check`: the same findings as text, as JSON and as a page that fetches nothing."""

import json
import shutil
from pathlib import Path

from command_line import CommandLine, assert_one_sentence
from photos import photo


def test_findings_come_as_text_json_and_a_page(
    tadam: CommandLine, photos: Path, labelled: Path, model: Path, tmp_path: Path
) -> None:
    mixed, page = tmp_path / "mixed", tmp_path / "page.html"
    shutil.copytree(photos, mixed)
    shutil.copy(mixed / "box" / "1.png", mixed / "disc" / "<i>box.png")
    (mixed / "rare").mkdir()
    photo("disc", 60).save(mixed / "rare" / "one.png")
    shutil.copytree(labelled, tmp_path / "test")
    shutil.copy(mixed / "box" / "1.png", tmp_path / "test")
    (mixed / "box" / "bad.jpg").write_text("x")
    command = ("check", mixed, "--test", tmp_path / "test", "--model", model)
    values = json.loads(tadam(*command, "--json").out)
    assert values["images"] == 20
    assert values["few"] == ["rare"]
    assert len(values["skipped"]) == 1
    stray = next(c for c in values["copies"] if str(mixed / "disc" / "<i>box.png") in c["paths"])
    assert stray["across"] == "training and test"
    assert set(stray["labels"]) >= {"box", "disc", None}
    suspects = [m["path"] for m in values["mislabelled"]]
    assert str(mixed / "disc" / "<i>box.png") in suspects
    assert "thumbnails" not in values
    result = tadam(*command, "--report", page)
    assert result.code == 0
    assert result.err.startswith("skipped: ")
    for words in (
        f"{mixed / 'disc' / '<i>box.png'}: disc, but looks like box",
        "across training and test:",
        "classes with fewer than 5 photos:\n  rare\n",
        f"written: {page}",
        "what more photos would bring: ",
    ):
        assert words in result.out
    text = page.read_text(encoding="utf-8")
    assert "<i>box.png" not in text
    assert 'href="mixed/disc/%3Ci%3Ebox.png"' in text
    assert 'src="http' not in text
    assert "across training and test" in text
    assert_one_sentence(tadam(*command, "--report", page), "exists", "--force")
    assert_one_sentence(tadam("check", mixed, "--strict", "--model", model), "bad.jpg")
    assert_one_sentence(tadam("check", tmp_path / "no"), "does not exist")


def test_a_photo_of_each_class_is_too_few_but_no_error(
    tadam: CommandLine, model: Path, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / "two" / name).mkdir(parents=True)
        photo("box" if name == "a" else "disc", 1).save(tmp_path / "two" / name / "x.png")
    page = tmp_path / "p.html"
    result = tadam("check", tmp_path / "two", "--model", model, "--report", page)
    assert result.code == 0
    assert "every class has only one" in result.out
    assert "too few photos of most classes to tell" in result.out
    assert "too few photos to tell" in page.read_text(encoding="utf-8")
