"""Table 1: nine systems, their recipes, published numbers, protocol and files."""

import csv
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from command_line import CommandLine, assert_one_sentence
from made_up_runs import made_up
from tadam.errors import UserError
from tadam.methods.base import InputSpec, build_model
from tadam.models.modelfile import load_model
from tadam.recipes import load_recipe
from tadam.recipes.method_recipes import METHOD_DATASETS, method_rows
from tadam.reproduce.experiments import ROWS, Cell, Request
from tadam.reproduce.report import report
from tadam.reproduce.result import RunResult
from tadam.reproduce.table_text import COLUMNS, notes, on_screen, texts
from tadam.reproduce.tables import ResultTable, build_table, load_table
from tadam.reproduce.training import write_table
from tiny import SETTINGS, write_image_folder


def of_table(request: Request, cell: Cell, accuracy: float, together: bool) -> RunResult:
    run = made_up(request, cell, 0, accuracy, 12.0)
    measured = {"parameters": 112_576, "sees_queries_together": together, "task_milliseconds": 7.6}
    return replace(run, **measured)  # type: ignore[arg-type]


def row_of(table: ResultTable, row: str, shot: int) -> dict[str, str]:
    rows = [dict(zip(COLUMNS["table1"], cells, strict=True)) for cells in texts(table)]
    (found,) = [one for one in rows if (one["row"], one["shots"]) == (row, str(shot))]
    return found


def test_every_method_with_recipes_is_a_row_and_the_papers_order_is_kept() -> None:
    rows = list(ROWS["table1"])
    assert sorted(rows) == method_rows()
    order = [row for row in ("matching", "maml", "protonet", "relation", "tadam") if row in rows]
    assert [row for row in rows if row in order] == order
    cells = Request("table1", shots=(1, 5)).cells()
    assert [(c.row, c.shot) for c in cells] == [(row, shot) for shot in (1, 5) for row in rows]


def test_a_cell_is_trained_by_its_methods_recipe() -> None:
    for dataset in METHOD_DATASETS:
        for preset, end in (("paper", ""), ("cpu", "-cpu")):
            request = Request("table1", dataset, preset, changes=("schedule.episodes=3",))
            expected = load_recipe(f"protonet-{dataset}-10shot{end}")
            changes = {"schedule": {"episodes": 3}, "run": {"seed": 7}}
            assert request.config(Cell("protonet", 10), 7) == expected.updated(changes)


@pytest.mark.parametrize("network", ["conv4", "resnet12"])
def test_every_row_takes_either_network_and_keeps_the_rest_of_its_recipe(network: str) -> None:
    changes = (f"backbone.name={network}", "backbone.width=8")
    for dataset, preset in itertools.product(METHOD_DATASETS, ("cpu", "paper")):
        request = Request("table1", dataset, preset, shots=(1, 5, 10), changes=changes)
        for cell in request.cells():
            config = request.config(cell, 0)
            found = vars(config.backbone)
            assert (found["name"], found["width"]) == (network, 8)
            own = replace(request, changes=()).config(cell, 0)
            assert replace(config, backbone=own.backbone) == own
            if (dataset, preset, cell.shot) == ("fc100", "cpu", 1):
                with torch.device("meta"):
                    build_model(config, InputSpec(3, 32, 64))


def test_published_numbers_of_the_data_set_and_of_mini_imagenet_stand_side_by_side() -> None:
    request = Request("table1", shots=(1, 5))
    run = of_table(request, Cell("protonet", 5), 0.5, together=False)
    table = build_table(request, [run])
    protonet = row_of(table, "protonet", 5)
    assert protonet == {
        "row": "protonet",
        "shots": "5",
        "network": "Conv-4, 64",
        "parameters": "112,576",
        "mini-ImageNet": "68.2",
        "published": "48.6",
        "ours": "50.0 ± 0.7",
        "diff": "+1.4",
        "together": "no",
        "train min": "11.0",
        "ms/task": "8",
    }
    tadam = row_of(table, "tadam", 1)
    assert (tadam["published"], tadam["mini-ImageNet"]) == ("40.1 ± 0.4", "58.5 ± 0.3")
    assert (tadam["ours"], tadam["together"]) == ("not run", "–")
    omniglot = build_table(Request("table1", "omniglot", shots=(1,)))
    assert omniglot.dataset == "omniglot_rotated"
    assert row_of(omniglot, "matching", 1)["published"] == "98.1"
    assert any("MetaOptNet" in note for note in notes(table))
    assert any("each system's own paper" in note for note in notes(omniglot))


def test_times_are_means_over_the_seeds() -> None:
    request = Request("table1", seeds=(0, 1))
    made = [made_up(request, Cell("maml", 5), seed, 0.5, 12.0 + 8 * seed) for seed in (0, 1)]
    runs = [replace(run, task_milliseconds=4.0 + 10 * run.seed) for run in made]
    maml = row_of(build_table(request, runs), "maml", 5)
    assert (maml["train min"], maml["ms/task"]) == ("15.0", "9")  # 11 and 19; 4 and 14


def test_a_narrow_screen_shows_whole_names_in_fewer_columns() -> None:
    request = Request("table1", "omniglot", "cpu", (), (1,))
    cells = [Cell(row, 1) for row in ("maml_first_order", "matching_fce")]
    runs = [of_table(request, cell, 0.5, together=True) for cell in cells]
    table = build_table(request, runs)
    columns, lines, left_out = on_screen(table, 80)
    widths = [max(map(len, column)) for column in zip(columns, *lines, strict=True)]
    assert sum(width + 3 for width in widths) + 1 <= 80  # with what separates them
    assert "network" in left_out
    assert {*columns, *left_out} == set(COLUMNS["table1"])
    first = next(line for line in lines if line[0] == "maml_first_order")
    assert (columns[3], first[3][:4]) == ("ours", "50.0")
    assert on_screen(table, 200) == (list(COLUMNS["table1"]), texts(table), [])


def test_files_say_who_sees_the_queries_together(tmp_path: Path) -> None:
    request = Request("table1", shots=(1, 5))
    runs = [of_table(request, c, 0.4, c.row == "matching") for c in request.cells()[:-1]]
    table = build_table(request, runs)
    paths = write_table(table, tmp_path, request.stem)
    assert [path.suffix for path in paths] == [".json", ".md", ".csv", ".tex", ".png"]
    assert texts(load_table(paths[0])) == texts(table)
    stored = json.loads(paths[0].read_text())
    assert [row["published"] for row in stored["rows"] if row["row"] == "protonet"] == [
        {"accuracy": pytest.approx(0.353), "ci95": None},
        {"accuracy": pytest.approx(0.486), "ci95": None},
    ]
    (tadam,) = [r for r in stored["rows"] if (r["row"], r["shot"]) == ("tadam", 1)]
    on_mini_imagenet = {"accuracy": pytest.approx(0.585), "ci95": pytest.approx(0.003)}
    assert tadam["mini_imagenet"] == on_mini_imagenet
    (adacnn,) = [r for r in stored["rows"] if (r["row"], r["shot"]) == ("adacnn", 1)]
    assert adacnn["mini_imagenet"] is None
    with paths[2].open() as file:
        together = {row["row"]: row["together"] for row in csv.DictReader(file)}
    assert (together["matching"], together["protonet"]) == ("yes", "no")
    page = report(tmp_path, tmp_path / "report.md")
    assert "## Table 1: nine systems under one protocol, fc100, preset cpu" in page
    assert "![table1](table1.png)" in page


def test_changes_need_only_suit_the_rows_asked_for() -> None:
    """Meta-LSTM, the table's first row, has no such setting."""
    request = Request("table1", rows=("maml",), changes=("method.batch_statistics=false",))
    (cell,) = request.cells()
    table = build_table(request, [of_table(request, cell, 0.5, together=False)])
    assert table.dataset == "fc100"
    assert row_of(table, "maml", 5)["ours"] == "50.0 ± 0.7"
    assert row_of(table, "meta_lstm", 5)["ours"] == "not run"


@pytest.mark.parametrize(
    ("rows", "change", "words"),
    [
        ("maml,snail", "method.batch_statistics=false", "unknown key method.batch_statistics"),
        ("matching,relation", "backbone.name=pixels", "Pixels has no feature maps"),
    ],
)
def test_a_change_that_one_of_the_rows_cannot_take_is_refused_before_the_first_run(
    rows: str, change: str, words: str, tmp_path: Path, tadam: CommandLine
) -> None:
    command = tiny_command(tmp_path, rows, change)
    assert_one_sentence(tadam(*command), words)
    assert not (tmp_path / "r").exists()


def tiny_command(tmp_path: Path, rows: str, change: str) -> list[str]:
    """Trains these rows, with one shot and this change, in seconds."""
    images = write_image_folder(tmp_path / "images", classes=16, images=8)
    others = ("episode.shot", "auxiliary", "backbone")
    changes = [s for s in SETTINGS if not s.startswith(others)]
    changes += [f"data.name=folder:{images}", "validation.way=2", change]
    options = [part for setting in changes for part in ("--set", setting)]
    command = ["reproduce", "table1", "--rows", rows, "--shots", "1", "--tasks", "4"]
    return [*command, "--out", str(tmp_path / "r"), "--device", "cpu", *options]


def test_two_rows_are_trained_measured_and_kept(
    tmp_path: Path, tadam: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tiny_command(tmp_path, "matching,protonet", "backbone.width=2")
    first = tadam(*command, "--json")
    assert first.code == 0, first.err
    found = json.loads(first.out)
    ran = {row["row"]: row["runs"] for row in found["rows"] if row["runs"]}
    assert set(ran) == {"matching", "protonet"}
    for row, (run,) in ran.items():
        model, _ = load_model(tmp_path / "r" / "table1" / f"{row}-1shot-seed0")
        assert run["parameters"] == sum(p.numel() for p in model.parameters())
        assert run["sees_queries_together"] is False
        assert run["task_milliseconds"] > 0
        assert f"--rows {row} --shots 1 --seeds 0" in run["command"]

    def never(*arguments: Any) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr("tadam.training.trainer.Trainer.step", never)
    again = tadam(*command)
    assert "Table 1: nine systems" in again.out, again.err
    assert (tmp_path / "r" / "table1.png").is_file()
    estimate = json.loads(tadam(*command, "--estimate", "--json").out)
    assert [run["seconds"] for run in estimate["runs"]] == [0.0, 0.0]


def test_the_time_of_rows_that_are_missing_is_estimated(tmp_path: Path, tadam: CommandLine) -> None:
    command = tiny_command(tmp_path, "matching,maml", "backbone.width=2")
    found = json.loads(tadam(*command, "--estimate", "--json").out)
    assert [run["name"] for run in found["runs"]] == ["matching-1shot-seed0", "maml-1shot-seed0"]
    assert all(run["steps"] == 6 and 0 < run["seconds"] < 600 for run in found["runs"])
    assert found["seconds"] == sum(run["seconds"] for run in found["runs"])
    assert not (tmp_path / "r").exists()


def test_mistakes_are_one_sentence(tadam: CommandLine) -> None:
    result = tadam("reproduce", "table1", "--dataset", "shapes")
    assert_one_sentence(result, "--dataset takes omniglot, fc100, cifar_fs, mini_imagenet")
    with pytest.raises(UserError, match=r"unknown row 'mamel': `rows` takes "):
        Request("table1", rows=("mamel",))
    with pytest.raises(UserError, match=r"unknown data set 'omniglot'"):
        Request("table3", "omniglot")
