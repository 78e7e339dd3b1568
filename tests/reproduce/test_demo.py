"""The demo, with a tiny budget: table, report, and a second call that trains nothing again."""

import io
import json
import re
from html import escape
from pathlib import Path

import pytest
from rich.console import Console

import tadam.evaluation.tasks
from command_line import CommandLine, assert_one_sentence
from tadam.config import Config
from tadam.errors import UserError
from tadam.evaluation.conditioning import conditioning_notes
from tadam.recipes import load_recipe
from tadam.reproduce import demo
from tadam.reproduce.demo import CONTESTANTS, run_demo

TINY = (
    "backbone.width=1",
    "schedule.episodes=2",
    "schedule.warmup=0",
    "auxiliary.batch_size=4",
    "validation.tasks=2",
    "validation.queries=10",
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("demo") / "out"
    console = Console(record=True, width=100, quiet=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "TEST_TASKS", 3)
        patch.setattr(tadam.evaluation.tasks, "_TRAINING_TASKS", 3)
        run_demo(folder, console, TINY)
        weights = (folder / "tadam" / "last.safetensors").stat().st_mtime_ns
        console = Console(record=True, width=100, file=io.StringIO())
        run_demo(folder, console, TINY)
    assert weights == (folder / "tadam" / "last.safetensors").stat().st_mtime_ns
    return folder, console.export_text()


def test_the_table_has_its_rows_for_both_kinds_of_task(finished: tuple[Path, str]) -> None:
    folder, text = finished
    rows = json.loads((folder / "results.json").read_text())
    assert [row["name"] for row in rows] == [
        "Raw pixels, nearest class mean",
        "Prototypical Network, no scaling",
        "Prototypical Network, scaled",
        "TADAM, the paper's mean",
        "TADAM with moments",
    ]
    for row in rows:
        assert row["name"] in text
        for key in ("accuracy", "family"):
            half = row["ci95" if key == "accuracy" else "family_ci95"]
            assert f"{100 * row[key]:.1f} ± {100 * half:.1f} %" in text
        assert set(row["controls"]["family"]) == (
            {"other", "mean", "unconditioned"} if "TADAM" in row["name"] else set()
        )
    other = rows[-1]["controls"]["family"]["other"]
    assert f"{100 * other['difference']:+.2f} ± {100 * other['difference_ci95']:.2f}" in text


def test_the_row_of_the_papers_mean_conditions_as_the_paper_does() -> None:
    row = next(c for c in CONTESTANTS if "the paper's mean" in c.name)
    config = load_recipe("shapes").with_settings([*row.settings])
    assert config.conditioning == load_recipe("paper-fc100-5shot").conditioning


def test_the_seed_is_that_of_every_training_run_and_of_the_folder(
    tadam: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = []

    def train(config: Config, folder: Path, **_: object) -> None:
        trained.append((config.run.seed, str(folder)))
        raise UserError("no further")

    monkeypatch.setattr(demo, "TEST_TASKS", 2)
    monkeypatch.setattr(demo, "train", train)
    monkeypatch.chdir(tmp_path)
    for options in ([], ["--seed", "3"], ["--seed", "3", "--out", "mine"]):
        assert_one_sentence(tadam("demo", *options), "no further")
    assert trained == [
        (0, "runs/demo/prototypical"),
        (3, "runs/demo-seed3/prototypical"),
        (3, "mine/prototypical"),
    ]
    assert_one_sentence(tadam("demo", "--out", "mine"), "run.seed: 0 != 3", "another --out")


def test_it_says_what_conditioning_does(finished: tuple[Path, str]) -> None:
    text = " ".join(finished[1].split())
    html = (finished[0] / "report.html").read_text()
    for row in json.loads((finished[0] / "results.json").read_text()):
        for kind, words in (("uniform", "all classes"), ("family", "classes within a family")):
            controls = row["controls"][kind]
            for note in conditioning_notes(controls):
                assert f"{row['name']}, tasks of {words}: {note}" in text
                assert escape(f"{row['name']}, tasks of {words}: {note}") in html
            numbers = [
                f"{100 * row[kind if kind == 'family' else 'accuracy']:.1f} ",
                *(f"{100 * controls[name]['accuracy']:.1f} " for name in controls),
            ]
            cells = r"[^<]*</td><td class=\"number\">".join(map(re.escape, numbers))
            name = re.escape(escape(row["name"]))
            line = f"<td>{name}</td><td>{words}</td>.*?>{cells}"
            assert bool(re.search(line, html)) == bool(controls), row["name"]
    assert "own vectors" in text
    assert html.count("<li>") == text.count(", tasks of ") == 4


def test_a_second_demo_trains_nothing_again(finished: tuple[Path, str]) -> None:
    assert finished[1].count("already trained") == 4


def test_the_report_is_one_file_with_every_part(finished: tuple[Path, str]) -> None:
    html = (finished[0] / "report.html").read_text()
    for heading in (
        "The rows, side by side",
        "When all classes of a task are of one kind",
        "What conditioning does",
        "The same images under two tasks",
        "One task",
        "How it learnt",
        "How strongly each layer is modulated",
        "What it confuses",
    ):
        assert heading in html
    assert html.count("<svg") == 6
    assert html.count("<img") == 1 + 25 + 20
    assert not re.search(r"<(script|link)|(src|href)=\"https?:", html)
