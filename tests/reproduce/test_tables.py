"""Tables of results: means and intervals by hand, rows that were not run, text that fits."""

import json
from pathlib import Path

import pytest

from made_up_runs import made_up
from tadam.errors import UserError
from tadam.reproduce.experiments import Cell, Request
from tadam.reproduce.table_text import COLUMNS, markdown, notes, texts
from tadam.reproduce.tables import build_table, load_table, mean_accuracy
from tadam.reproduce.training import write_table


def test_one_run_keeps_its_interval_over_tasks() -> None:
    assert str(mean_accuracy([0.5612], [0.0044])) == "56.1 ± 0.4"


@pytest.mark.parametrize(
    ("values", "half"),
    [
        # s = 0.0141421, t(1) = 12.71, / sqrt 2; s = 0.01, t(2) = 4.30, / sqrt 3
        ([0.50, 0.52], 12.71 * 0.0141421 / 2**0.5),
        ([0.50, 0.51, 0.52], 4.30 * 0.01 / 3**0.5),
        ([0.5, 0.6] * 10, 2.093 * 0.0512989 / 20**0.5),
    ],
)
def test_several_runs_have_an_interval_over_runs(values: list[float], half: float) -> None:
    found = mean_accuracy(values, [9.0] * len(values))
    assert found.value == pytest.approx(sum(values) / len(values))
    assert found.half == pytest.approx(half, rel=0.01)
    assert found.runs == tuple(values)


def test_published_ours_difference_and_minutes() -> None:
    request = Request("table3", rows=("plain", "tadam"), seeds=(0, 1))
    runs = [
        made_up(request, Cell("tadam"), 0, 0.550, 20.0),
        made_up(request, Cell("plain"), 1, 0.520, 10.0),
        made_up(request, Cell("plain"), 0, 0.510, 14.0),
    ]
    assert texts(build_table(request, runs)) == [
        ["plain", "5", "53.3 ± 0.5", "51.5 ± 6.4 (51.0, 52.0)", "-1.8", "–", "12.0"],
        ["alpha", "5", "54.0 ± 0.5", "not run", "–", "–", "–"],
        ["alpha-at", "5", "54.7 ± 0.5", "not run", "–", "–", "–"],
        ["alpha-tc", "5", "54.0 ± 0.7", "not run", "–", "–", "–"],
        ["tadam", "5", "56.1 ± 0.4", "55.0 ± 0.7", "-1.1", "54.0 ± 0.8", "20.0"],
    ]


def test_earlier_runs_are_shown_with_the_requested_ones() -> None:
    before = Request("table2", train_ways=(20,))
    run = made_up(before, Cell("cosine", 5, 20), 0, 0.38, 9.0)
    rows = texts(build_table(Request("table2", rows=("euclidean",)), [run]))
    assert [row[:2] for row in rows] == [
        [name, way]
        for way in ("5-way", "20-way")
        for name in ("euclidean", "cosine", "cosine-scaled")
    ]
    assert rows[4][2:5] == ["37.1 ± 1.9", "38.0 ± 0.7", "+0.9"]


def test_other_data_has_no_published_value_beside_it() -> None:
    request = Request("table3", changes=("data.name=shapes",))
    table = build_table(request, [made_up(request, Cell("plain"), 0, 0.9, 2.0)])
    assert table.dataset == "shapes"
    assert texts(table)[0][2:5] == ["–", "90.0 ± 0.7", "–"]
    assert "Changed from the preset: data.name=shapes." in notes(table)


def test_figure_4_chooses_alpha_on_validation() -> None:
    request = Request("figure4", alphas=(5.0, 1.0))
    runs = [
        made_up(request, Cell("alpha-1"), 0, 0.40, 5.0),
        made_up(request, Cell("alpha-2"), 0, 0.45, 5.0),
        made_up(request, Cell("alpha-2", 1), 0, 0.99, 5.0),  # another curve
    ]
    table = build_table(request, runs)
    assert [row[:3] for row in texts(table)] == [
        ["1", "42.0 ± 1.2", "40.0 ± 0.7"],
        ["2", "47.0 ± 1.2", "45.0 ± 0.7"],
        ["5", "not run", "not run"],
    ]
    (choice,) = [note for note in notes(table) if "Best on validation" in note]
    assert choice.startswith("Best on validation: alpha = 2 (alpha is chosen on validation")


def test_files_give_the_same_table_back(tmp_path: Path) -> None:
    request = Request("table3", shots=(1, 5), seeds=(0, 1))
    runs = [made_up(request, cell, s, 0.5 + s / 100, 3) for cell in request.cells() for s in (0, 1)]
    table = build_table(request, runs[:-1])
    paths = write_table(table, tmp_path, "table3")
    names = [f"table3.{kind}" for kind in ("json", "md", "csv", "tex", "png")]
    assert [path.name for path in paths] == names
    again = load_table(paths[0])
    assert markdown(again) == markdown(table) == paths[1].read_text()
    stored = json.loads(paths[0].read_text())
    assert stored["rows"][0]["published"] == pytest.approx({"accuracy": 0.378, "ci95": 0.004})
    assert stored["rows"][0]["runs"][1]["seed"] == 1
    assert paths[4].stat().st_size > 10_000
    (tmp_path / "table3.json").write_text('{"rows": 3}')
    with pytest.raises(UserError, match=r"table3.json is not a table"):
        load_table(paths[0])


def test_the_markdown_has_every_run_with_its_command_and_machine() -> None:
    request = Request("table2", preset="paper")
    text = markdown(build_table(request, [made_up(request, Cell("cosine"), 4, 0.4, 30.0)]), "##")
    assert text.startswith("## Table 2: distances and scaling, Conv-4, fc100, preset paper\n")
    assert "| cosine-5shot-seed4 | 40.0 ± 0.7 | 42.0 ± 1.2, 2000 | 29.0 min | 1.0 min |" in text
    assert "--preset paper --rows cosine --train-way 5 --seeds 4\n" in text
    assert "A CPU, 2 of 4 cores, native core, cpu, torch 2.13.0, tadam 0.1.0." in text


@pytest.mark.parametrize("name", ["table2", "table3", "figure4", "omniglot"])
def test_without_runs_every_row_says_so(name: str) -> None:
    table = build_table(Request(name))
    assert all("not run" in row for row in texts(table))
    assert all(len(row) == len(COLUMNS[name]) for row in texts(table))
    assert markdown(table).count("not run") >= len(table.lines)
