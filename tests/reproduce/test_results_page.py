"""The page of all results: what the JSON says, `not run` for the rest, and docs/results.md."""

import json
from pathlib import Path
from typing import Any

from command_line import CommandLine, assert_one_sentence
from made_up_runs import made_up
from tadam.config import Config
from tadam.config.recipe import upgraded
from tadam.reproduce.experiments import Cell, Request
from tadam.reproduce.figure3 import Figure3, Multipliers, write_figure3
from tadam.reproduce.lemma1 import lemma1
from tadam.reproduce.lemma1_results import write_lemma1
from tadam.reproduce.report import report
from tadam.reproduce.result import RunResult
from tadam.reproduce.tables import build_table
from tadam.reproduce.training import write_table

DOCS = Path(__file__).parents[2] / "docs"


def _stored_runs() -> list[dict[str, Any]]:
    names = ("table2-paper", "table3", "figure4", "omniglot")
    tables = [json.loads((DOCS / "results" / f"{name}.json").read_text()) for name in names]
    return [run for table in tables for row in table["rows"] for run in row["runs"]]


def test_a_stored_result_comes_from_the_recipe_that_its_command_trains() -> None:
    results = [RunResult.from_json(run) for run in _stored_runs()]
    assert len(results) > 10
    for result in results:
        dataset = "fc100" if result.experiment == "omniglot" else result.dataset  # it has its own
        request = Request(result.experiment, dataset, result.preset, changes=result.changes)
        config = request.config(result.cell, result.seed)
        trained = Config().updated(upgraded(result.settings))
        assert config.differences(trained) == [], (result.experiment, result.cell)


def test_the_page_in_the_docs_is_what_the_stored_results_give() -> None:
    page = DOCS / "results.md"
    assert page.read_text(encoding="utf-8") == report(DOCS / "results", page), (
        "stale: run tadam reproduce report --out docs/results --page docs/results.md"
    )


def test_a_folder_without_results_gives_a_page_of_rows_not_run(tmp_path: Path) -> None:
    page = report(tmp_path, tmp_path / "report.md")
    assert page.count("not run") == 3 + 5 + 2 * 5 + 2  # figure 4 has two columns of them
    assert page.count("Not run.") == 2  # figure 3 and the lemma
    assert "mini" not in page.partition("## ")[2].replace("mini-ImageNet.", "")


def test_results_are_on_the_page_with_pictures_beside_it(
    tadam: CommandLine, tmp_path: Path
) -> None:
    folder = tmp_path / "results"
    for dataset in ("fc100", "mini_imagenet"):
        request = Request("table3", dataset, "paper")
        runs = [made_up(request, Cell("tadam", 10), 0, 0.777, 60.0)]
        write_table(build_table(request, runs), folder, request.stem)
    layers = dict.fromkeys(range(1, 13), 0.1)
    write_figure3(Figure3("fc100", (Multipliers("run", layers, layers),)), folder, "figure3")
    write_lemma1([lemma1("cosine", alphas=[0.5, 3000.0])], folder)
    done = tadam("reproduce", "report", "--out", folder, "--page", tmp_path / "page.md")
    assert done.code == 0, done.err
    page = (tmp_path / "page.md").read_text()
    assert "| 10 | 61.6 ± 0.5 | 77.7 ± 0.7 | +16.1 | 76.7 ± 0.8 | 60.0 |" in page
    assert "| 10 | 80.8 ± 0.3 | 77.7 ± 0.7 | -3.1 | 76.7 ± 0.8 | 60.0 |" in page
    for name in ("table3-paper", "table3-mini-imagenet-paper", "figure3", "lemma1"):
        assert f"![{name}](results/{name}.png)" in page
    assert "| cosine | 0.5 | " in page
    assert "of 1 trained model, by layer" in page


def test_runs_of_both_presets_stand_on_the_page(tmp_path: Path) -> None:
    for experiment, row in (("table1", "maml"), ("table3", "tadam"), ("ten-layers", "last")):
        for preset, accuracy in (("cpu", 0.421), ("paper", 0.577)):
            request = Request(experiment, preset=preset)
            runs = [made_up(request, Cell(row, 5), 0, accuracy, 60.0)]
            write_table(build_table(request, runs), tmp_path, request.stem, draw=False)
    page = report(tmp_path, tmp_path / "page.md")
    for title in ("Table 1", "Table 3", "TEN by layer"):
        for preset, text in (("cpu", "| 42.1 ± 0.7 |"), ("paper", "| 57.7 ± 0.7 |")):
            (part,) = [
                part
                for part in page.split("\n## ")
                if part.startswith(f"{title}:")
                and part.partition("\n")[0].endswith(f"fc100, preset {preset}")
            ]
            assert text in part


def test_a_file_that_is_not_a_results_page_is_left_alone(
    tadam: CommandLine, tmp_path: Path
) -> None:
    page = tmp_path / "notes.md"
    page.write_text("mine")
    again = tadam("reproduce", "report", "--out", tmp_path, "--page", page)
    assert_one_sentence(again, "notes.md is not a page of 'tadam reproduce report'")
    assert page.read_text() == "mine"
    for _ in range(2):
        assert tadam("reproduce", "report", "--out", tmp_path).code == 0


def test_a_damaged_lemma1_is_one_sentence(tadam: CommandLine, tmp_path: Path) -> None:
    for content in ["{", "3", "[3]", '[{"a": 1}]', "[{}]"]:
        (tmp_path / "lemma1.json").write_text(content)
        for command in ("report", "lemma1"):
            done = tadam("reproduce", command, "--out", tmp_path)
            assert_one_sentence(done, "lemma1.json is damaged: remove it")


def test_a_missing_folder_is_one_sentence(tadam: CommandLine, tmp_path: Path) -> None:
    missing = tadam("reproduce", "report", "--out", tmp_path / "none")
    assert_one_sentence(missing, "there is no folder", "run 'tadam reproduce' first")
