"""Recipes: every shipped one is valid, and the paper's say what the paper says."""

from importlib import resources

import pytest

from tadam.methods.base import InputSpec, build_model
from tadam.nn.backbones.conv4 import Conv4Config
from tadam.nn.backbones.resnet12 import ResNet12Config
from tadam.recipes import load_recipe, recipe_names
from tadam.recipes.paper_recipes import paper_recipes
from tadam.registry import BACKBONES
from tadam.training.schedule import learning_rate_factor


def test_the_paper_has_a_recipe_for_each_data_set_and_row_of_both_tables() -> None:
    names = [name for name in recipe_names() if name.startswith("paper-")]
    conv4 = [name for name in names if "-conv4-" in name]
    assert len(conv4) == 2 * 3 * 2  # data sets, distances, training ways
    assert len(names) - len(conv4) == 2 * 3 * 5  # data sets, shots, rows


def test_the_files_are_what_the_grid_generates() -> None:
    folder = resources.files("tadam.recipes").joinpath("paper")
    for name, text in paper_recipes().items():
        assert folder.joinpath(name).read_text(encoding="utf-8") == text, (
            f"{name} is stale: run python -m tadam.recipes.paper_recipes"
        )


def test_every_shipped_recipe_loads_and_survives_a_round_trip() -> None:
    for name in recipe_names():
        config = load_recipe(name)
        assert config == type(config).from_toml(config.to_toml(), name), name
        assert load_recipe(f"{name}.toml") == config


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # shot, tasks, queries, alpha, conditioned, auxiliary, steps: by hand from the paper
        ("paper-fc100-5shot", (5, 2, 32, 5.0, True, True, 10_000)),
        ("paper-fc100-5shot-plain", (5, 2, 32, 1.0, False, False, 20_000)),
        ("paper-fc100-1shot-alpha-tc", (1, 5, 12, 2.0, True, False, 20_000)),
        ("paper-mini-imagenet-10shot", (10, 1, 64, 10.0, True, True, 30_000)),
        ("paper-mini-imagenet-5shot-alpha-at", (5, 2, 32, 7.5, False, True, 30_000)),
    ],
)
def test_the_papers_settings_by_hand(name: str, expected: tuple[object, ...]) -> None:
    c = load_recipe(name)
    assert expected == (
        c.episode.shot,
        c.episode.tasks,
        c.episode.queries,
        c.metric.alpha,
        c.conditioning.enabled,
        c.auxiliary.enabled,
        c.schedule.episodes,
    )
    assert isinstance(c.backbone, ResNet12Config)
    assert (c.backbone.width, c.backbone.pools, c.metric.distance) == (64, 3, "euclidean")
    assert not c.metric.learn_alpha


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # distance, alpha, learnt, way, queries, validation way: Snell et al. and Table 2 by hand
        ("paper-fc100-conv4-euclidean", ("sqeuclidean", 1.0, False, 5, 75, 0)),
        ("paper-fc100-conv4-cosine-20way", ("cosine", 1.0, False, 20, 300, 5)),
        ("paper-mini-imagenet-conv4-cosine-scaled", ("cosine", 10.0, True, 5, 75, 0)),
        ("omniglot-1shot", ("sqeuclidean", 1.0, False, 30, 150, 5)),
        ("omniglot-5shot", ("sqeuclidean", 1.0, False, 20, 100, 5)),
    ],
)
def test_prototypical_networks_by_hand(name: str, expected: tuple[object, ...]) -> None:
    c = load_recipe(name)
    assert expected == (
        c.metric.distance,
        c.metric.alpha,
        c.metric.learn_alpha,
        c.episode.way,
        c.episode.queries,
        c.validation.way,
    )
    assert isinstance(c.backbone, Conv4Config)
    network = (c.backbone.name, c.backbone.width, c.backbone.activation, c.backbone.embedding)
    assert network == ("conv4", 64, "relu", "flat")
    assert (c.optimiser.name, c.optimiser.learning_rate, c.optimiser.weight_decay) == (
        "adamw",
        0.001,
        0.0,
    )
    assert (c.optimiser.clip, c.schedule.drop_factor, c.episode.tasks) == ("none", 2.0, 1)
    assert c.episode.balanced_queries
    assert not c.conditioning.enabled
    assert not c.auxiliary.enabled


def test_the_learning_rate_drops_at_half_time_and_2500_and_5000_steps_later() -> None:
    schedule = load_recipe("paper-mini-imagenet-5shot").schedule
    factors = [learning_rate_factor(t, schedule) for t in (14_999, 15_000, 17_499, 17_500, 20_000)]
    assert factors == pytest.approx([1, 0.1, 0.1, 0.01, 0.001])


def test_on_a_frozen_network_only_the_metric_and_the_conditioning_are_learnt() -> None:
    config = load_recipe("frozen")
    if not BACKBONES.find(config.backbone.name).is_installed():
        pytest.skip("needs the extra imagenet")
    model = build_model(config, InputSpec(3, config.data.image_size, 0))
    learnt = {name.partition(".")[0] for name, p in model.named_parameters() if p.requires_grad}
    assert learnt == {"metric", "ten"}
