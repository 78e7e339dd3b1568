"""docs/how-to/backbones.md: its code runs as it stands, and a backbone does what it says."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from as_tadam import as_tadam
from stores import store_of
from tadam.config import Config
from tadam.data.episodes import EpisodeSampler
from tadam.data.store import ImageStore
from tadam.errors import UserError
from tadam.evaluation.tasks import evaluate_tasks
from tadam.methods.base import InputSpec, build_model
from tadam.methods.tadam import Tadam
from tadam.registry import BACKBONES
from tadam.training.trainer import Trainer

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "backbones.md"


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    """What the page's code defines, run from top to bottom."""
    found: dict[str, Any] = {}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
            exec(compile(block, str(PAGE), "exec"), found)
    yield found
    del BACKBONES._entries["tiny"]


def conditioned(names: dict[str, Any]) -> Tadam:
    """The page's model with FiLM that matters: gamma0 and beta0 are no longer zero."""
    for layer in names["ten"].conditioners.values():
        torch.nn.init.constant_(layer.gamma0, 0.5)
        torch.nn.init.constant_(layer.beta0, 0.5)
    return as_tadam(names["model"])


def test_the_shapes_are_as_the_page_says(names: dict[str, Any]) -> None:
    assert names["logits"].shape == (1, 3, 2)
    assert names["probabilities"].shape == (3, 2)
    torch.testing.assert_close(names["probabilities"].sum(dim=1), torch.ones(3))


def test_a_recipe_finds_the_backbone_and_its_settings_by_name(names: dict[str, Any]) -> None:
    config = Config().updated(
        {
            "backbone": {"name": "tiny", "width": 8},
            "episode": {"way": 2, "shot": 2, "queries": 4},
            "auxiliary": {"enabled": False},
        }
    )
    model = as_tadam(build_model(config, InputSpec(3, 16, 0)))
    assert type(model.backbone) is names["Tiny"]
    assert (model.backbone.feature_size, model.backbone.image_size) == (16, 16)
    model.initialise(config, [127.5] * 3, [60.0] * 3)
    weight = model.backbone.get_parameter("convs.0.weight")
    before = weight.detach().clone()
    store = store_of([8, 8, 8], size=16)
    result = Trainer(config, model, store, torch.device("cpu")).step(0)
    assert np.isfinite(float(result.numbers["loss"]))
    assert not torch.equal(weight, before)
    with pytest.raises(UserError, match=r"backbone\.pools"):
        Config().updated({"backbone": {"name": "tiny", "pools": 3}})


def test_a_wrapped_network_classifies(names: dict[str, Any]) -> None:
    assert names["answer"].tolist() == ["night"]


def test_a_wrapped_module_gets_square_normalised_images(names: dict[str, Any]) -> None:
    seen = []

    class Network(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(x)
            return x.mean(dim=(2, 3))

    backbone = names["Wrapped"](Network(), features=3)
    z = backbone.embed(backbone.preprocess(torch.full((2, 3, 50, 90), 255, dtype=torch.uint8)))
    assert seen[0].shape == (2, 3, 64, 64)
    torch.testing.assert_close(z, torch.ones(2, 3))


def test_the_predictor_embeds_as_the_conditioned_model_does(names: dict[str, Any]) -> None:
    model = conditioned(names)
    support, labels, queries = names["support"], names["labels"], names["queries"]
    with torch.no_grad():
        film = model.film_from(model.embed(support[0])[None], labels, 2)
        expected, plain = model.embed(queries[0], film), model.embed(queries[0])
        metric, _ = names["fit_metric"](model.embed(support[0], film), labels[0], 2)
        predictor = names["Predictor"](names["backbone"], film, metric)
        found = predictor.embed(queries[0].permute(0, 2, 3, 1))
        answers = predictor(queries[0].permute(0, 2, 3, 1))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(answers, metric.probabilities(expected))
    assert (expected - plain).abs().max() > 1e-3


def test_film_reaches_every_layer_that_is_named(names: dict[str, Any]) -> None:
    backbone, widths = names["backbone"], names["backbone"].conditioned_widths
    x = torch.rand(2, 3, 32, 32)
    for layer, width in enumerate(widths):
        film: list[Any] = [None] * len(widths)
        film[layer] = (torch.full((1, width), 2.0), torch.ones(1, width))
        assert not torch.allclose(backbone.embed(x, film), backbone.embed(x))


def test_it_can_be_evaluated(names: dict[str, Any]) -> None:
    shades = np.repeat(np.array([30, 120, 220], np.uint8), 8)[:, None, None, None]
    store = ImageStore.from_counts(
        np.broadcast_to(shades, (24, 40, 40, 3)), [8] * 3, ["a", "b", "c"]
    )
    result = evaluate_tasks(names["model"], EpisodeSampler(store, 2, 3, 6, seed=0), tasks=4)
    assert result.accuracy == 1.0  # images of a class are all the same
    assert result.accuracy_unconditioned is not None
