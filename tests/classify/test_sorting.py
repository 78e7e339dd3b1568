"""Sorting photos: nothing overwritten, nothing outside the folder, and all of it can be undone."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tadam.classify import sorting as module
from tadam.classify.predictions import Prediction
from tadam.classify.sorting import Filing, plan_sorting, sort_photos, undo_sorting
from tadam.errors import UserError


def answer(path: Path | None, label: object) -> Prediction:
    empty = np.zeros(1, np.float32)
    return Prediction(str(path) if path else None, str(label), empty, 0.0, False, empty)


def tree(root: Path) -> dict[str, str]:
    """The content of every file below a folder."""
    files = (f for f in root.rglob("*") if f.is_file())
    return {f.relative_to(root).as_posix(): f.read_text() for f in files}


@pytest.fixture
def photos(tmp_path: Path) -> list[Prediction]:
    found = []
    for name, label in [("in/a.jpg", "cat"), ("in/b.jpg", "dog"), ("in/sub/a.jpg", "cat")]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        found.append(answer(path, label))
    return found


@pytest.mark.parametrize("move", [False, True])
@pytest.mark.parametrize("links", [False, True])
def test_photos_are_sorted_and_come_back(
    photos: list[Prediction],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    move: bool,
    links: bool,
) -> None:
    if not links:  # as on another disk, or one without hard links

        def refused(*_: object) -> None:
            raise OSError(18, "Invalid cross-device link")

        monkeypatch.setattr(os, "link", refused)
    out = tmp_path / "out"
    (out / "cat").mkdir(parents=True)
    (out / "cat" / "A.jpg").write_text("mine")
    before = tree(tmp_path)
    problems: list[str] = []
    done, record = sort_photos(plan_sorting(photos, out), out, move, problems)
    assert problems == []
    assert record is not None
    assert [f.target.relative_to(out).as_posix() for f in done] == [
        "cat/a-2.jpg",
        "dog/b.jpg",
        "cat/a-3.jpg",
    ]
    found = tree(out)
    del found["tadam-undo.jsonl"]
    assert found == {
        "cat/A.jpg": "mine",
        "cat/a-2.jpg": "in/a.jpg",
        "cat/a-3.jpg": "in/sub/a.jpg",
        "dog/b.jpg": "in/b.jpg",
    }
    assert len(tree(tmp_path / "in")) == (0 if move else 3)
    assert undo_sorting(record, problems) == 3
    assert problems == []
    assert tree(tmp_path) == before
    assert not (out / "dog").exists()
    assert (out / "cat").exists()


@pytest.mark.parametrize("move", [False, True])
def test_the_list_is_complete_before_anything_is_touched(
    photos: list[Prediction], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, move: bool
) -> None:
    """A crash after any number of steps can be undone."""
    before = tree(tmp_path)
    for survived in range(4):
        out = tmp_path / f"out{survived}"
        steps = iter(range(10))
        work = module._move if move else module._copy

        def crash(source: Path, target: Path, survived: int = survived) -> None:
            if next(steps) == survived:  # noqa: B023
                if move:
                    os.link(source, target)  # cut off between the two halves of a move
                raise KeyboardInterrupt
            work(source, target)  # noqa: B023

        with monkeypatch.context() as patch:
            patch.setattr(module, "_move" if move else "_copy", crash)
            try:
                sort_photos(plan_sorting(photos, out), out, move, [])
                assert survived == 3
            except KeyboardInterrupt:
                assert survived < 3
        problems: list[str] = []
        undo_sorting(out / "tadam-undo.jsonl", problems)
        assert problems == []
        assert tree(tmp_path) == before


def test_what_cannot_be_put_back_is_told_and_the_list_stays(
    photos: list[Prediction], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done, record = sort_photos(plan_sorting(photos, out), out, True, [])
    assert record is not None
    done[0].source.write_text("a new one")
    done[1].target.unlink()
    problems: list[str] = []
    assert undo_sorting(record, problems) == 1
    assert sorted(problems) == sorted(
        [
            f"{done[0].source} is there again: {done[0].target} stays where it is",
            f"{done[1].target} is not there any more: it cannot be put back",
        ]
    )
    assert record.exists()
    assert done[0].target.read_text() == "in/a.jpg"
    copies = tmp_path / "copies"
    done, record = sort_photos(plan_sorting(photos[2:], copies), copies, False, [])
    assert record is not None
    done[0].target.write_text("edited")
    assert undo_sorting(record, problems) == 0
    assert "differs from" in problems[-1]
    assert done[0].target.read_text() == "edited"


def test_a_second_sorting_has_a_list_of_its_own_and_leaves_what_is_in_place(
    photos: list[Prediction], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done, _ = sort_photos(plan_sorting(photos[:2], out), out, True, [])
    again = [answer(f.target, f.target.parent.name) for f in done]
    assert plan_sorting(again, out) == []
    assert sort_photos([], out, True, []) == ([], None)
    _, record = sort_photos(plan_sorting(photos[2:], out), out, True, [])
    assert record == out / "tadam-undo-2.jsonl"


def test_no_class_name_leads_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_text("x")
    out = tmp_path / "deep" / "out"
    names = ["..", "../../etc", "/etc", "a/../../b", "C:\\x", "", "x\0y", "n" * 300, "a. "]
    for name in names:
        (filing,) = plan_sorting([answer(tmp_path / "a.jpg", name)], out)
        assert filing.target.resolve().is_relative_to(out), name
        assert filing.target.parent != out
        assert "\0" not in str(filing.target)
    (tmp_path / "b.jpg").write_text("y")
    two = plan_sorting([answer(tmp_path / "a.jpg", "x?"), answer(tmp_path / "b.jpg", "x*")], out)
    assert len({f.target.parent for f in two}) == 2
    (nested,) = plan_sorting([answer(tmp_path / "a.jpg", "Fruit/Apple")], out)
    assert nested.target == out / "Fruit" / "Apple" / "a.jpg"


def test_images_that_are_no_files_or_are_named_twice_are_left_out(
    photos: list[Prediction], tmp_path: Path
) -> None:
    plan = plan_sorting(
        [answer(None, "x"), answer(tmp_path / "no", "x"), *photos[:1] * 2], tmp_path
    )
    assert [f.source.name for f in plan] == ["a.jpg"]


def test_a_photo_that_appears_meanwhile_is_not_overwritten(
    photos: list[Prediction], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    plan = plan_sorting(photos, out)
    plan[0].target.parent.mkdir(parents=True)
    plan[0].target.write_text("somebody's")
    for move in (False, True):
        problems: list[str] = []
        done, _ = sort_photos(plan[:1], out, move, problems)
        assert done == []
        assert "a.jpg cannot be" in problems[0]
        assert plan[0].target.read_text() == "somebody's"
        assert plan[0].source.exists()


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_a_link_is_copied_but_not_moved(photos: list[Prediction], tmp_path: Path) -> None:
    link = tmp_path / "link.jpg"
    link.symlink_to("in/a.jpg")
    out, problems = tmp_path / "out", list[str]()
    plan = plan_sorting([answer(link, "cat")], out)
    assert sort_photos(plan, out, True, problems)[0] == []
    assert problems == [f"{link} is a link: it stays where it is"]
    assert sort_photos(plan, out, False, problems)[0] == plan
    assert not plan[0].target.is_symlink()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[]",
        "{}",
        '{"tadam_undo": 2, "action": "move", "folders": []}',
        '{"tadam_undo": 1, "action": "burn", "folders": []}',
        '{"tadam_undo": 1, "action": "copy", "folders": []}\n{"from": "/x", "to": "../y"}',
        '{"tadam_undo": 1, "action": "copy", "folders": []}\n{"from": "/x", "to": "/etc/y"}',
        '{"tadam_undo": 1, "action": "copy", "folders": ["../z"]}',
        '{"tadam_undo": 1, "action": "copy", "folders": []}\n{"from": 1, "to": "y"}',
    ],
)
def test_a_list_that_is_none_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.jsonl").write_text(text)
    with pytest.raises(UserError, match=r"is not a list that `copy_to` or `move_to` wrote"):
        undo_sorting(tmp_path / "x.jsonl", [])


def test_the_list_says_in_plain_json_what_went_where(
    photos: list[Prediction], tmp_path: Path
) -> None:
    plan = [Filing(Path("/a/b.jpg"), tmp_path / "cat" / "b.jpg")]
    _, record = sort_photos(plan, tmp_path, True, [])
    assert record is not None
    head, row = map(json.loads, record.read_text().splitlines())
    assert head == {"tadam_undo": 1, "action": "move", "folders": ["cat"]}
    assert row == {"from": "/a/b.jpg", "to": os.path.join("cat", "b.jpg")}
