"""Requests: which runs they mean, what the presets change, and refusals in a sentence."""

from typing import Any

import pytest

from tadam.errors import UserError
from tadam.nn.backbones.resnet12 import ResNet12Config
from tadam.recipes import load_recipe
from tadam.reproduce.experiments import Cell, Request
from tadam.reproduce.result import command_line
from tadam.training.schedule import learning_rate_factor


def names(request: Request) -> list[str]:
    return [cell.folder(0) for cell in request.cells()]


def test_rows_in_the_order_of_the_tables() -> None:
    assert names(Request("table2", train_ways=(5, 20), rows=("cosine", "euclidean"))) == [
        "euclidean-5shot-seed0",
        "cosine-5shot-seed0",
        "euclidean-20way-5shot-seed0",
        "cosine-20way-5shot-seed0",
    ]
    assert names(Request("table3")) == [
        f"{row}-5shot-seed0" for row in ("plain", "alpha", "alpha-at", "alpha-tc", "tadam")
    ]
    assert names(Request("figure4")) == [f"alpha-{a}-5shot-seed0" for a in (1, 2, 5, 10, 20)]
    assert names(Request("omniglot")) == ["1shot-seed0", "5shot-seed0"]


def test_the_paper_preset_has_all_shots_and_is_the_shipped_recipes() -> None:
    request = Request("table3", preset="paper")
    assert [cell.shot for cell in request.cells()] == [1] * 5 + [5] * 5 + [10] * 5
    config = request.config(Cell("alpha-at", 10), seed=3)
    assert config.differences(load_recipe("paper-fc100-10shot-alpha-at")) == ["run.seed: 3 != 0"]
    conv4 = Request("table2", "mini_imagenet", "paper").config(Cell("cosine", 5, 20), 0)
    assert conv4 == load_recipe("paper-mini-imagenet-conv4-cosine-20way")


@pytest.mark.parametrize(
    ("row", "steps", "drops"),
    [("tadam", 5000, (2500, 3750, 5000)), ("alpha-tc", 5000, (2500, 3125, 3750))],
)
def test_the_cpu_preset_is_narrow_and_short_with_the_same_schedule(
    row: str, steps: int, drops: tuple[int, ...]
) -> None:
    config = Request("table3").config(Cell(row), 0)
    assert isinstance(config.backbone, ResNet12Config)
    assert (config.backbone.width, config.schedule.episodes) == (16, steps)
    factors = [learning_rate_factor(t, config.schedule) for t in range(steps)]
    falls = [t for t in range(1, steps) if factors[t] < factors[t - 1]]
    assert falls == [drop for drop in drops if drop < steps]


def test_figure_4_is_tadam_with_half_the_budget_and_its_own_alpha() -> None:
    for preset, steps in (("cpu", 2500), ("paper", 5000)):
        config = Request("figure4", preset=preset).config(Cell("alpha-20"), 0)
        assert (config.metric.alpha, config.metric.learn_alpha) == (20.0, False)
        assert (config.metric.distance, config.schedule.episodes) == ("euclidean", steps)
        assert config.conditioning.enabled
        assert config.auxiliary.enabled


def test_table_2_is_snells_training_and_the_cpu_preset_only_shortens_it() -> None:
    paper = Request("table2", preset="paper").config(Cell("euclidean"), 0)
    assert (paper.episode.queries, paper.episode.tasks) == (75, 1)
    rates = [learning_rate_factor(t, paper.schedule) for t in (1999, 2000, 4000, 38_000)]
    assert rates == [1, 0.5, 0.25, 0.5**19]
    assert Request("table2").config(Cell("euclidean"), 0).differences(paper) == [
        "schedule.episodes: 8000 != 40000"
    ]
    twenty = Request("table2").config(Cell("cosine-scaled", 5, 20), 0)
    assert (twenty.episode.way, twenty.episode.queries, twenty.validation.way) == (20, 300, 5)
    assert (twenty.metric.alpha, twenty.metric.learn_alpha) == (10.0, True)


def test_changes_are_applied_on_top_of_the_preset() -> None:
    request = Request("table3", changes=("backbone.width=8", "data.name=shapes"))
    config = request.config(Cell("plain"), 0)
    assert isinstance(config.backbone, ResNet12Config)
    assert (config.backbone.width, config.data.name) == (8, "shapes")


@pytest.mark.parametrize(
    ("request_", "cell", "expected"),
    [
        (
            Request("table2", preset="paper"),
            Cell("cosine", 5, 20),
            "table2 --dataset fc100 --preset paper --rows cosine --train-way 20 --seeds 7",
        ),
        (
            Request("table3", changes=("data.name=folder:my pictures",), tasks=20),
            Cell("tadam", 1),
            "table3 --dataset fc100 --preset cpu --rows tadam --shots 1 --seeds 7 "
            "--set 'data.name=folder:my pictures' --tasks 20",
        ),
        (
            Request("figure4"),
            Cell("alpha-0.5"),
            "figure4 --dataset fc100 --preset cpu --values 0.5 --shot 5 --seeds 7",
        ),
        (Request("omniglot"), Cell("1shot", 1), "omniglot --rows 1shot --seeds 7"),
    ],
)
def test_the_command_of_a_run_by_hand(request_: Request, cell: Cell, expected: str) -> None:
    assert command_line(request_, cell, 7) == f"tadam reproduce {expected}"


def test_mistakes_are_refused() -> None:
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"rows": ("plane",)}, "unknown row 'plane': `rows` takes plain, alpha, alpha-at"),
        ({"rows": ("plain", "plain")}, "`rows` must differ"),
        ({"shots": (2,)}, "unknown number of shots 2: `shots` takes 1, 5, 10"),
        ({"seeds": (-1,)}, "`seeds` must be between 0 and"),
        ({"seeds": (1, 1)}, "`seeds` must differ, got 1, 1"),
        ({"dataset": "cub"}, "unknown data set 'cub': `dataset` takes fc100, mini_imagenet"),
        ({"preset": "gpu"}, "unknown preset 'gpu': `preset` takes cpu, paper"),
        ({"train_ways": (7,)}, "unknown training way 7: `train_ways` takes 5, 20"),
        ({"tasks": 1}, "`tasks` must be at least 2, got 1"),
        ({"changes": ("run.seed=1",)}, "leave run.seed=1 out of `changes`: `seeds` decides it"),
        ({"changes": ("episode.shot=2",)}, "`shots` decides it"),
    ]
    for wrong, message in mistakes:
        with pytest.raises(UserError, match=message):
            Request("table3", **wrong)


def test_the_figure_varies_alpha_itself() -> None:
    with pytest.raises(
        UserError, match=r"leave metric.alpha=3 out of `changes`: the figure varies it"
    ):
        Request("figure4", changes=("metric.alpha=3",))
