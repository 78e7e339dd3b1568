"""The paper's experiments beside its tables: what each row changes, and what stands beside it."""

import csv
import json
from pathlib import Path

import pytest
from PIL import Image

from command_line import CommandLine
from made_up_runs import made_up
from tadam.nn.backbones.resnet12 import ResNet12Config
from tadam.reproduce.ablations import ABLATIONS
from tadam.reproduce.diverged import DivergedRun
from tadam.reproduce.experiments import Cell, Request
from tadam.reproduce.published import published, seen
from tadam.reproduce.report import report
from tadam.reproduce.result import command_line
from tadam.reproduce.table_text import COLUMNS, markdown, notes, texts
from tadam.reproduce.tables import build_table, load_table
from tadam.reproduce.training import write_table
from tadam.training.schedule import learning_rate_factor


def changed(experiment: str, row: str, against: str, preset: str = "paper") -> dict[str, str]:
    """Key -> value of what a row of an experiment changes, compared with another row."""
    request = Request(experiment, preset=preset)
    mine, theirs = (request.config(Cell(name), 0) for name in (row, against))
    differences = (text.partition(": ") for text in mine.differences(theirs))
    return {key: text.partition(" != ")[0] for key, _, text in differences}


def test_each_row_changes_what_its_name_says() -> None:
    for experiment, row, against, expected in [
        ("ten-layers", "pre-pool", "all", {"conditioning.layers": "'pre_pool'"}),
        ("ten-layers", "last", "all", {"conditioning.layers": "'last'"}),
        ("ten-layers", "none", "all", {"conditioning.enabled": "False"}),
        ("ten-layers", "shared", "all", {"conditioning.shared": "32"}),
        ("ten-multipliers", "without", "with", {"conditioning.multipliers": "False"}),
        ("ten-penalty", "decay-0.1", "decay-0.01", {"optimiser.multiplier_decay": "0.1"}),
        ("projection", "layers-2", "layers-0", {"backbone.projection": "2"}),
        ("learning-rate", "rate-0.01", "rate-0.001", {"optimiser.learning_rate": "0.01"}),
        ("ten-representation", "mean-std", "mean", {"conditioning.representation": "'mean_std'"}),
    ]:
        assert changed(experiment, row, against) == expected, (experiment, row)


def falls(experiment: str, row: str, preset: str) -> list[int]:
    """Steps at which the learning rate falls."""
    schedule = Request(experiment, preset=preset).config(Cell(row), 0).schedule
    factors = [learning_rate_factor(t, schedule) for t in range(schedule.episodes)]
    return [t for t in range(1, len(factors)) if factors[t] < factors[t - 1]]


def test_half_the_steps_have_the_learning_rate_of_the_whole_run() -> None:
    for preset, steps, every in (("paper", 40_000, 2_000), ("cpu", 8_000, 400)):
        assert falls("steps", "40k", preset) == list(range(every, steps, every))
        assert falls("steps", "20k", preset) == list(range(every, steps // 2, every))


def test_the_fair_table_3_has_the_papers_schedules_in_proportion() -> None:
    request = Request("table3-fair")
    lengths = {row: request.config(Cell(row), 0) for row in ABLATIONS["table3-fair"].rows}
    assert {row: config.schedule.episodes for row, config in lengths.items()} == {
        "plain": 10_000,
        "alpha": 10_000,
        "alpha-at": 5_000,
        "alpha-tc": 10_000,
        "tadam": 5_000,
    }
    assert {row: config.metric.alpha for row, config in lengths.items()} == {
        "plain": 1.0,
        **dict.fromkeys(("alpha", "alpha-at", "alpha-tc", "tadam"), 2.0),
    }
    assert falls("table3-fair", "alpha", "cpu") == [5_000, 6_250, 7_500]
    assert falls("table3-fair", "tadam", "cpu") == [2_500, 3_750]
    backbone = lengths["tadam"].backbone
    assert isinstance(backbone, ResNet12Config)
    assert backbone.width == 16
    paper = Request("table3-fair", preset="paper").config(Cell("alpha"), 0)
    assert paper == Request("table3", preset="paper").config(Cell("alpha"), 0)


def test_pretraining_makes_as_many_updates_of_both_kinds() -> None:
    from tadam.methods.cotraining import makes_auxiliary_update, makes_few_shot_update

    request = Request("pretraining", preset="paper")
    co, pre = (request.config(Cell(row), 0) for row in ("co-training", "pre-training"))
    counts = []
    for config in (co, pre):
        steps = range(config.schedule.episodes)
        auxiliary = [t for t in steps if makes_auxiliary_update(t, config)]
        few_shot = [t for t in steps if makes_few_shot_update(t, config)]
        counts.append((len(auxiliary), len(few_shot)))
    assert counts[0][1] == counts[1][1] == 10_000
    assert counts[1][0] == pytest.approx(counts[0][0], rel=0.03)
    assert max(auxiliary) < min(few_shot)
    drops = falls("pretraining", "pre-training", "paper")
    assert [drop - min(few_shot) for drop in drops] == falls("pretraining", "co-training", "paper")


def test_the_papers_number_stands_beside_the_row_that_is_its_own() -> None:
    for experiment, row, number in [
        ("table3-fair", "alpha-at", 0.547),
        ("ten-layers", "all", 0.561),
        ("ten-layers", "none", 0.547),
        ("ten-penalty", "decay-0.01", 0.561),
        ("learning-rate", "rate-0.001", 0.510),
        ("steps", "40k", 0.511),
    ]:
        found = published(experiment, "fc100", Cell(row))
        assert found is not None
        assert found[0] == pytest.approx(number)
    for experiment, row in [("ten-layers", "last"), ("steps", "20k"), ("projection", "layers-1")]:
        assert published(experiment, "fc100", Cell(row)) is None


@pytest.mark.parametrize("name", ABLATIONS)
def test_every_experiment_says_what_the_paper_claims(name: str) -> None:
    table = build_table(Request(name))
    assert seen(name) in notes(table)
    assert all("not run" in row for row in texts(table))
    assert all(len(row) == len(COLUMNS[name]) for row in texts(table))
    command = command_line(Request(name), Cell(next(iter(ABLATIONS[name].rows))), 0)
    assert command.startswith(f"tadam reproduce {name} --dataset fc100 --preset cpu --rows ")


def test_rows_are_compared_seed_by_seed() -> None:
    request = Request("table3-fair", seeds=(0, 1, 2))
    runs = [
        made_up(request, Cell(row), seed, accuracy + seed / 50, 3.0)
        for row, accuracy in (("alpha-at", 0.51), ("tadam", 0.53))
        for seed in (0, 1, 2)
    ]
    (note,) = [n for n in notes(build_table(request, runs)) if "seed by seed" in n]
    expected = "tadam minus alpha-at, 5 shots, seed by seed (3 seeds): +2.0 ± 0.0 points."
    assert note == expected
    assert not [n for n in notes(build_table(request, runs[:4])) if "seed by seed" in n]


def test_a_row_says_how_many_of_its_seeds_diverged(tmp_path: Path) -> None:
    request = Request("ten-multipliers", seeds=(0, 1))
    lost = DivergedRun("without", 5, 5, 1, "loss became nan by step 90", {}, "tadam", "0.2.0", "x")
    run = made_up(request, Cell("without"), 0, 0.412, 9.0)
    table = build_table(request, [run], [lost])
    assert [row[3] for row in texts(table)] == ["not run", "41.2 ± 0.7 and 1 diverged"]
    paths = write_table(table, tmp_path, request.stem)
    assert texts(load_table(paths[0])) == texts(table)
    assert "without-5shot-seed1 diverged: loss became nan by step 90" in markdown(table)


def test_own_minus_other_and_on_minus_off_are_in_the_table_and_comes_back(tmp_path: Path) -> None:
    from dataclasses import replace

    request = Request("ten-layers", rows=("last",))
    control: dict[str, float | None] = {
        "accuracy": 0.5,
        "ci95": 0.01,
        "difference": 0.013,
        "difference_ci95": 0.004,
    }
    off: dict[str, float | None] = {**control, "difference": -0.021, "difference_ci95": 0.006}
    run = made_up(request, Cell("last"), 0, 0.55, 9.0)
    run = replace(run, controls={"other": control, "unconditioned": off})
    paths = write_table(build_table(request, [run]), tmp_path, "ten-layers", draw=False)
    cells = dict(zip(COLUMNS["ten-layers"], texts(load_table(paths[0]))[2], strict=True))
    assert (cells["own - other"], cells["on - off"]) == ("1.3 ± 0.4", "-2.1 ± 0.6")
    assert "| layer 12 | 5 |" in markdown(load_table(paths[0]))


@pytest.mark.parametrize("name", [name for name, a in ABLATIONS.items() if a.table == "table3"])
def test_the_note_on_the_cpu_preset_has_the_steps_and_the_alpha_of_every_row(name: str) -> None:
    request = Request(name)
    (note,) = [text for text in notes(build_table(request)) if text.startswith("The cpu preset")]
    for row in ABLATIONS[name].rows:
        config = request.config(Cell(row), 0)
        assert f"{config.schedule.episodes:,}" in note.partition(". On FC100")[0], row
        assert row == "plain" or f"alpha is {config.metric.alpha:g} in every row" in note
    curve = Request("figure4").config(Cell("alpha-2"), 0)
    tadam = request.config(Cell(next(iter(ABLATIONS[name].rows))), 0)
    if name == "ten-layers":  # its first row is TADAM
        assert 2 * curve.schedule.episodes == tadam.schedule.episodes
    assert "with the row TADAM, half the steps and one seed" in note


def test_tables_are_written_as_csv_and_latex(tmp_path: Path) -> None:
    request = Request("table3", rows=("plain",))
    run = made_up(request, Cell("plain"), 0, 0.51, 3.0)
    write_table(build_table(request, [run]), tmp_path, "table3", draw=False)
    with open(tmp_path / "table3.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["row"] for row in rows] == ["plain", "alpha", "alpha-at", "alpha-tc", "tadam"]
    assert rows[0]["ours"] == "51.0 ± 0.7"
    tex = (tmp_path / "table3.tex").read_text()
    assert r"plain & 5 & 53.3 $\pm$ 0.5 & 51.0 $\pm$ 0.7 & -2.3 & -- & 3.0 \\" in tex
    assert tex.count(r"\\") == 1 + 5
    assert r"\begin{tabular}{lrrrrrr}" in tex


def test_latex_escapes_what_it_would_read_as_a_command() -> None:
    from tadam.reproduce.table_files import escaped

    assert escaped("50 % of a_b & {c} |x| ±") == (
        r"50 \% of a\_b \& \{c\} \textbar{}x\textbar{} $\pm$"
    )


def test_figure_4_has_a_panel_without_ten() -> None:
    request = Request("figure4-no-ten")
    config = request.config(Cell("alpha-2"), 0)
    assert not config.conditioning.enabled
    assert config.auxiliary.enabled
    assert (config.metric.alpha, config.schedule.episodes) == (2.0, 2_500)
    command = command_line(request, Cell("alpha-2"), 0)
    options = "--dataset fc100 --preset cpu --values 2 --shot 5 --no-ten --seeds 0"
    assert command == f"tadam reproduce figure4 {options}"


def test_figure_4_and_its_panel_without_ten_are_one_picture(tmp_path: Path) -> None:
    paths = {}
    for name in ("figure4-no-ten", "figure4"):
        request = Request(name, alphas=(1.0, 2.0))
        runs = [made_up(request, cell, 0, 0.4 + cell.alpha / 50, 5.0) for cell in request.cells()]
        paths[name] = write_table(build_table(request, runs), tmp_path, request.stem)
    assert paths["figure4-no-ten"][-1].name == "figure4-no-ten.png"
    assert paths["figure4"][-1] == tmp_path / "figure4.png"
    assert [path.name for path in tmp_path.glob("*.png")] == ["figure4.png"]
    with Image.open(tmp_path / "figure4.png") as both:
        two = both.height
    request = Request("figure4", shots=(1,), alphas=(1.0, 2.0))
    runs = [made_up(request, cell, 0, 0.3, 5.0) for cell in request.cells()]
    write_table(build_table(request, runs), tmp_path, request.stem)
    with Image.open(tmp_path / "figure4-1shot.png") as alone:
        assert two > 1.7 * alone.height
    again = write_table(build_table(Request("figure4-no-ten")), tmp_path, "figure4-no-ten")
    assert again[-1].name == "figure4.png"  # without runs, it has no panel


def test_a_figure_4_of_other_shots_has_files_of_its_own(tmp_path: Path) -> None:
    stems = [Request("figure4", shots=shots).stem for shots in ((), (5,), (1,), (10,))]
    assert stems == ["figure4", "figure4", "figure4-1shot", "figure4-10shot"]
    named = Request("figure4-no-ten", "mini_imagenet", "paper", shots=(1,)).stem
    assert named == "figure4-no-ten-mini-imagenet-paper-1shot"
    assert Request("table3", shots=(1,)).stem == "table3"
    for shot, accuracy in ((1, 0.321), (5, 0.543)):
        request = Request("figure4", shots=(shot,))
        runs = [made_up(request, Cell("alpha-2", shot), 0, accuracy, 5.0)]
        write_table(build_table(request, runs), tmp_path, request.stem, draw=False)
    page = report(tmp_path, tmp_path / "page.md")
    assert "## Figure 4: accuracy against alpha, fc100, preset cpu\n" in page
    assert "## Figure 4: accuracy against alpha, fc100, preset cpu, 1 shot\n" in page
    assert "| 2 | 34.1 ± 1.2 | 32.1 ± 0.7 |" in page
    assert "| 2 | 56.3 ± 1.2 | 54.3 ± 0.7 |" in page


def test_an_estimate_trains_nothing_and_counts_every_seed(
    tadam: CommandLine, tmp_path: Path
) -> None:
    from tiny import SETTINGS, write_image_folder

    images = write_image_folder(tmp_path / "images", images=8)
    changes = [f"data.name=folder:{images}", *SETTINGS]
    changes = [c for c in changes if not c.startswith("episode.shot")]
    options = [part for change in changes for part in ("--set", change)]
    done = tadam(
        "reproduce", "ten-layers", "--rows", "last", "--seeds", "0,1", "--estimate", "--json",
        "--shots", "1", "--out", tmp_path / "out", *options,
    )  # fmt: skip
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert [run["name"] for run in found["runs"]] == ["last-1shot-seed0", "last-1shot-seed1"]
    assert found["seconds"] == pytest.approx(2 * found["runs"][0]["seconds"])
    assert not (tmp_path / "out").exists()
