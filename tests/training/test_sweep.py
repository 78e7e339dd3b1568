"""Cross-validation of alpha: right choice, resuming without repetition, clear refusals."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import tadam.training.sweep
from as_tadam import as_tadam
from tadam.config import Config
from tadam.errors import Interrupted, RunFailed, UserError
from tadam.training.run import TrainingResult, train
from tadam.training.sweep import SweepPoint, SweepResult, sweep_alpha
from tadam.training.trainer import Trainer

TINY = Config().updated(
    {
        "data": {"image_size": 16},
        "episode": {"way": 2, "shot": 1, "queries": 2, "tasks": 1},
        "backbone": {"name": "conv4", "width": 1},
        "conditioning": {"enabled": False},
        "auxiliary": {"enabled": False},
        "schedule": {"episodes": 3},
        "validation": {"tasks": 4, "queries": 4, "every": 2},
        "run": {"checkpoint_every": 1},
    }
)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Two classes of noise to train on, two to validate on; a test task would be refused."""
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    counts = {"a": 4, "b": 4, "c": 4, "d": 4, "e": 1, "f": 1}
    for name, count in counts.items():
        (folder / name).mkdir()
        for i in range(count):
            pixels = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{i}.png")
    (folder / "splits.toml").write_text('train=["a", "b"]\nval=["c", "d"]\ntest=["e", "f"]\n')
    return TINY.updated({"data": {"name": f"folder:{folder}"}})


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, int]]:
    """Every training step actually made, as (alpha, step)."""
    made: list[tuple[float, int]] = []
    original = Trainer.step

    def step(self: Trainer, t: int) -> Any:
        made.append((round(as_tadam(self.model).metric.alpha.item(), 4), t))
        return original(self, t)

    monkeypatch.setattr(Trainer, "step", step)
    return made


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> dict[float, float]:
    """Instead of training, each alpha gets the accuracy found here."""
    accuracies: dict[float, float] = {}

    def pretend(recipe: Config, out: Path, *, settings: list[str], **_: Any) -> TrainingResult:
        config = recipe.with_settings(settings)
        assert not config.metric.learn_alpha
        return TrainingResult(Path(out), 3, accuracies[config.metric.alpha], 0.01, 2, 1.0)

    monkeypatch.setattr(tadam.training.sweep, "train", pretend)
    monkeypatch.setattr(tadam.training.sweep, "check_recipe", lambda *_: None)
    return accuracies


def facts(result: SweepResult) -> list[tuple[float, float, float, int]]:
    return [(p.alpha, p.accuracy, p.ci95, p.step) for p in result.points]


def test_each_point_is_a_run_of_that_alpha_and_its_validation_accuracy(
    recipe: Config, tmp_path: Path
) -> None:
    seen: list[SweepPoint] = []
    learning = recipe.with_settings(["metric.learn_alpha=true"])
    result = sweep_alpha(learning, [10, 0.5], tmp_path / "s", on_point=seen.append)
    assert tuple(seen) == result.points
    assert [p.folder for p in result.points] == ["alpha-0.5", "alpha-10"]
    alone = train(recipe, tmp_path / "alone", settings=["metric.alpha=10.0"])
    assert result.points[1].accuracy == alone.best_accuracy
    assert result.points[1].ci95 == alone.best_ci95
    text = (tmp_path / "s" / "alpha-0.5" / "recipe.toml").read_text()
    assert "alpha = 0.5\nlearn_alpha = false" in text


def test_resuming_trains_nothing_again_and_may_add_values(
    recipe: Config, tmp_path: Path, steps: list[tuple[float, int]]
) -> None:
    first = sweep_alpha(recipe, [1, 5], tmp_path)
    assert steps == [(a, t) for a in (1.0, 5.0) for t in range(3)]
    steps.clear()
    again = sweep_alpha(recipe, [1, 5], tmp_path, resume=True)
    assert steps == []
    assert again == first
    more = sweep_alpha(recipe, [1, 2, 5], tmp_path, resume=True)
    assert steps == [(2.0, t) for t in range(3)]
    assert [more.points[0], more.points[2]] == list(first.points)
    steps.clear()
    another = sweep_alpha(recipe, [9], tmp_path, resume=True)
    assert steps == [(9.0, t) for t in range(3)]
    assert another.points[:3] == more.points
    assert [p["alpha"] for p in json.loads((tmp_path / "sweep.json").read_text())["points"]] == [
        1.0,
        2.0,
        5.0,
        9.0,
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        '{"points": [{"alpha": "x"}]}',
        '{"points": [{"alpha": -1}]}',
        '{"points": [{"alpha": 1}, {"alpha": 1}]}',
        '{"points": 1}',
        "[" * 100_000,
    ],
)
def test_resuming_beside_a_damaged_result_says_what_to_do(
    recipe: Config, tmp_path: Path, text: str
) -> None:
    (tmp_path / "sweep.toml").write_text(tadam.training.sweep._base(recipe, (), None).to_toml())
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(UserError, match=r"sweep\.json is damaged: delete it"):
        sweep_alpha(recipe, [1, 5], tmp_path, resume=True)


def test_a_file_of_another_tool_is_left_alone(recipe: Config, tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text("[]")
    with pytest.raises(UserError, match="holds other files"):
        sweep_alpha(recipe, [1, 5], tmp_path, resume=True)


def test_a_sweep_that_is_stopped_while_values_are_added_keeps_the_earlier_ones(
    recipe: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sweep_alpha(recipe, [1, 5], tmp_path)
    step = Trainer.step

    def dying(self: Trainer, t: int) -> Any:
        if 0.65 < as_tadam(self.model).metric.alpha.item() < 0.75:
            raise KeyboardInterrupt
        return step(self, t)

    with monkeypatch.context() as context:
        context.setattr(Trainer, "step", dying)
        with pytest.raises(KeyboardInterrupt):
            sweep_alpha(recipe, [0.7, 0.6], tmp_path, resume=True)
    kept = json.loads((tmp_path / "sweep.json").read_text())["points"]
    assert [point["alpha"] for point in kept] == [0.6, 1.0, 5.0]
    whole = sweep_alpha(recipe, [0.6, 0.7], tmp_path, resume=True)
    assert [point.alpha for point in whole.points] == pytest.approx([0.6, 0.7, 1.0, 5.0])
    assert whole.points[2:] == first.points


def test_interrupted_sweep_resumes_where_it_stopped_and_ends_the_same(
    recipe: Config,
    tmp_path: Path,
    steps: list[tuple[float, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = sweep_alpha(recipe, [1, 5], tmp_path / "whole")
    step = Trainer.step

    def dying(self: Trainer, t: int) -> Any:
        if (round(as_tadam(self.model).metric.alpha.item()), t) == (5, 1):
            raise KeyboardInterrupt
        return step(self, t)

    with monkeypatch.context() as context:
        context.setattr(Trainer, "step", dying)
        with pytest.raises(KeyboardInterrupt):
            sweep_alpha(recipe, [1, 5], tmp_path / "cut")
    assert len(json.loads((tmp_path / "cut" / "sweep.json").read_text())["points"]) == 1
    steps.clear()
    resumed = sweep_alpha(recipe, [1, 5], tmp_path / "cut", resume=True)
    assert steps == [(5.0, 1), (5.0, 2)]
    assert facts(resumed) == facts(whole)


def test_ctrl_c_ends_the_sweep_and_not_only_the_run(
    recipe: Config,
    tmp_path: Path,
    steps: list[tuple[float, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = Trainer.step

    def pressing(self: Trainer, t: int) -> Any:
        if t == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, t)

    monkeypatch.setattr(Trainer, "step", pressing)
    with pytest.raises(Interrupted, match=r"^alpha 1: stopped after step 2 of 3;.*`resume`"):
        sweep_alpha(recipe, [1, 5], tmp_path)
    assert steps == [(1.0, 0), (1.0, 1)]


def test_failed_run_is_named_by_its_alpha_and_the_others_are_made(
    recipe: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Trainer.step

    def diverging(self: Trainer, t: int) -> Any:
        made = step(self, t)
        alpha = round(as_tadam(self.model).metric.alpha.item())
        return (
            replace(made, numbers={"loss": made.numbers["loss"] * float("nan")})
            if alpha == 2
            else made
        )

    monkeypatch.setattr(Trainer, "step", diverging)
    with pytest.raises(RunFailed, match=r"^alpha 2: loss became nan .* training diverged"):
        sweep_alpha(recipe, [2, 5, 10], tmp_path)
    written = json.loads((tmp_path / "sweep.json").read_text())
    assert [point["alpha"] for point in written["points"]] == [5, 10]


def test_best_is_the_highest_accuracy_and_ties_go_to_the_smallest_alpha(
    made_up: dict[float, float], tmp_path: Path
) -> None:
    made_up |= {0.5: 0.4, 1.0: 0.6, 5.0: 0.6, 10.0: 0.5}
    result = sweep_alpha(TINY, [10, 5, 1, 0.5], tmp_path)
    assert result.best.alpha == 1.0
    assert not result.at_edge
    written = json.loads((tmp_path / "sweep.json").read_text())
    assert written["best"]["alpha"] == 1.0
    assert [p["accuracy"] for p in written["points"]] == [0.4, 0.6, 0.6, 0.5]
    table = (tmp_path / "sweep.md").read_text()
    assert "| 1 | **60.00% ± 1.00%** | 2 |" in table
    assert "| 5 | 60.00% ± 1.00% | 2 |" in table
    assert "edge" not in table


def test_best_value_at_the_edge_is_pointed_out(made_up: dict[float, float], tmp_path: Path) -> None:
    made_up |= {1.0: 0.4, 5.0: 0.6}
    assert sweep_alpha(TINY, [1, 5], tmp_path).at_edge
    assert "a better one may lie beyond" in (tmp_path / "sweep.md").read_text()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0], "a sweep needs at least 2 `values`, got 1"),
        ([], "a sweep needs at least 2 `values`, got 0"),
        ([1.0, 2.0, 1.0], "`values` must differ, got 1, 2, 1"),
        ([0.0, 1.0], "`values` must be above 0 and below 1e6, got 0"),
        ([1.0, float("nan")], "`values` must be above 0 and below 1e6, got nan"),
    ],
)
def test_invalid_values_are_refused_before_anything_is_written(
    values: list[float], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as error:
        sweep_alpha(TINY, values, tmp_path / "new")
    assert str(error.value) == message
    assert not (tmp_path / "new").exists()


def test_alpha_cannot_be_set_as_well(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the sweep decides it"):
        sweep_alpha(TINY, [1, 2], tmp_path, settings=["metric.alpha=3"])


def test_folder_of_another_sweep_or_of_other_files_is_refused(
    made_up: dict[float, float], tmp_path: Path
) -> None:
    made_up |= {1.0: 0.4, 5.0: 0.6}
    sweep_alpha(TINY, [1, 5], tmp_path / "s")
    with pytest.raises(UserError, match="already holds results: add `resume`"):
        sweep_alpha(TINY, [1, 5], tmp_path / "s")
    other = ["backbone.width=2"]
    with pytest.raises(UserError, match=r"of another recipe \(backbone.width: 2 != 1\)"):
        sweep_alpha(TINY, [1, 5], tmp_path / "s", settings=other, resume=True)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="holds other files"):
        sweep_alpha(TINY, [1, 5], tmp_path, resume=True)
    with pytest.raises(UserError, match="is a file"):
        sweep_alpha(TINY, [1, 5], tmp_path / "notes.txt")
