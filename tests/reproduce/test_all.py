"""`tadam reproduce all`: everything once, in order, and nothing again the second time."""

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine
from made_up_runs import made_up
from tadam.methods.base import InputSpec
from tadam.methods.tadam import Tadam
from tadam.models.find import BEST
from tadam.models.modelfile import ModelInfo, save_model
from tadam.reproduce.experiments import Cell, Request
from tadam.reproduce.result import RunResult, save_result

SPEC = InputSpec(3, 16, 0)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Instead of training, a run leaves a model and a made-up result; the runs in their order."""
    made: list[str] = []

    def pretend(request: Request, cell: Cell, seed: int, folder: Path, **_: Any) -> RunResult:
        made.append(f"{request.experiment}/{folder.name}")
        config = request.config(cell, seed)
        folder.mkdir(parents=True)
        (folder / "recipe.toml").write_text(config.to_toml())
        narrow = config.updated({"backbone": {"width": 1}, "auxiliary": {"enabled": False}})
        save_model(folder / BEST, Tadam.build(narrow, SPEC), ModelInfo(narrow, SPEC))
        result = made_up(request, cell, seed, 0.5, 3.0)
        save_result(folder, result)
        return result

    monkeypatch.setattr("tadam.reproduce.runs._make_run", pretend)
    monkeypatch.setattr("tadam.reproduce.runs.check_recipe", lambda *_: None)
    return made


def test_everything_is_run_in_order_and_once(
    tadam: CommandLine, tmp_path: Path, runs: list[str]
) -> None:
    first = tadam("reproduce", "all", "--preset", "paper", "--out", tmp_path)
    assert first.code == 0, first.err
    assert [name for name in runs if name.startswith(("table2", "figure4", "omniglot"))] == [
        "table2/euclidean-5shot-seed0",
        "table2/cosine-5shot-seed0",
        "table2/cosine-scaled-5shot-seed0",
        "table2/euclidean-20way-5shot-seed0",
        "table2/cosine-20way-5shot-seed0",
        "table2/cosine-scaled-20way-5shot-seed0",
        *(f"figure4/alpha-{alpha}-5shot-seed0" for alpha in (1, 2, 5, 10, 20)),
        "omniglot/1shot-seed0",
        "omniglot/5shot-seed0",
    ]
    order = list(dict.fromkeys(name.partition("/")[0] for name in runs))
    assert order == ["table2", "table3", "figure4", "omniglot"]
    assert len(runs) == 6 + 15 + 5 + 2
    titles = ("Table 2", "Table 3", "Figure 4", "Figure 3", "Omniglot", "Lemma 1")
    places = [first.out.index(title) for title in titles]
    assert places == sorted(places)
    assert "of 11 trained models" in (tmp_path / "figure3.md").read_text()  # 6 of Table 3
    paper = ("table2-paper", "table3-paper", "figure4-paper")
    for name in (*paper, "figure3", "omniglot", "lemma1"):
        kinds = {path.suffix for path in tmp_path.glob(f"{name}.*")}
        assert kinds == {".json", ".md", ".csv", ".tex", ".png"}

    runs.clear()
    again = tadam("reproduce", "all", "--preset", "paper", "--out", tmp_path, "--json")
    assert again.code == 0, again.err
    assert runs == []
    found = json.loads(again.out)
    assert list(found) == ["table2", "table3", "figure4", "figure3", "omniglot", "lemma1"]
    page = Path(__file__).parents[2] / "docs" / "how-to" / "reproduce.md"
    *most, last = found
    assert f"`tadam reproduce all` | {', '.join(most)} and {last};" in page.read_text("utf-8")
    assert found["omniglot"]["rows"][0]["runs"][0]["accuracy"] == 0.5

    alone = tadam("reproduce", "omniglot", "--out", tmp_path)  # has no preset
    assert alone.code == 0, alone.err
    assert runs == []
