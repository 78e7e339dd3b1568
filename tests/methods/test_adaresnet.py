"""Conditionally shifted neurons: a memory of the support set shifts each query's network."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tadam.config import Config
from tadam.errors import UserError
from tadam.methods.base import InputSpec, build_model
from tadam.nn.backbones.conv4 import Conv4

SETTINGS = [
    "method.name=adaresnet",
    "backbone.name=conv4",
    "backbone.activation=relu",
    "backbone.initialisation=he",
    "backbone.width=4",
    "episode.way=3",
    "method.value_units=6",
]


def built(*settings: str) -> Any:
    config = Config().with_settings([*SETTINGS, *settings])
    model: Any = build_model(config, InputSpec(3, 16, 0))
    model.initialise(config, [100.0] * 3, [50.0] * 3)
    generator = torch.Generator().manual_seed(1)
    nn.init.normal_(model.head.weight, generator=generator)  # it starts at zero
    for name, statistic in model.named_buffers():
        if "running_mean" in name:
            nn.init.normal_(statistic, std=0.3, generator=generator)
        if "running_var" in name:
            nn.init.uniform_(statistic, 0.5, 2.0, generator=generator)
    return model.eval()


def task(shots: list[int], queries: int = 4, tasks: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (tasks, sum(shots) + queries, 3, 16, 16), generator=generator)
    labels = torch.tensor([k for k, shot in enumerate(shots) for _ in range(shot)])
    return images[:, : sum(shots)], labels.expand(tasks, -1), images[:, sum(shots) :]


def by_the_equations(model: Any, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
    """One task, neuron by neuron as the paper has it: every neuron's feedback through g."""
    x, active = model.backbone.preprocess(support), []
    with model.description.used():
        for number in range(4):
            x = model.backbone.stage(number, x)
            active.append((x > 0).float())
        logits = model.head(model.backbone.vectors(x))
    e = logits.softmax(dim=1) - torch.eye(3)[labels]  # (N, K)
    values = [
        model.values[i](mask[..., None] * e[:, None, None, None, :]).squeeze(-1)
        for i, mask in enumerate(active[1:])
    ]  # (N, C, h, w)
    outputs = torch.stack(
        [
            torch.stack([model.values[-1](e[n, k] * e[n])[0] for k in range(3)])
            for n in range(len(e))
        ]
    )
    keys, own = (model.key_network(model.backbone.preprocess(i)) for i in (support, query))
    answers = []
    for q, key in enumerate(own):
        attention = (model.attention * nn.functional.cosine_similarity(key[None], keys)).softmax(0)
        x = model.backbone.preprocess(query[q : q + 1])
        for number in range(4):
            x = model.backbone.stage(number, x)
            if number > 0:
                x = (
                    x
                    + sum(a * v for a, v in zip(attention, values[number - 1], strict=True)).relu()
                )
        answers.append(model.head(model.backbone.vectors(x))[0] + attention @ outputs)
    return torch.stack(answers)


def test_answers_follow_the_papers_equations_neuron_by_neuron() -> None:
    model = built()
    support, labels, query = task([1, 3, 2])  # unequal shots
    with torch.no_grad():
        logits = model(support, labels, query, 3)
        expected = [
            by_the_equations(model, *one) for one in zip(support, labels, query, strict=True)
        ]
    torch.testing.assert_close(logits, torch.stack(expected), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("keys", ["own", "shared"])
@pytest.mark.parametrize("backbone", ["conv4", "resnet12"])
def test_with_an_empty_memory_it_is_its_base_network(backbone: str, keys: str) -> None:
    model = built(f"backbone.name={backbone}", "backbone.width=2", f"method.keys={keys}")
    support, labels, query = task([1, 1, 1])
    images, x = (model.backbone.preprocess(i.flatten(0, 1)) for i in (support, query))
    with torch.no_grad():
        memory = model.describe(images, labels)
        empty = memory._replace(
            keys=memory.keys[:, :0],
            on=[values[:, :0] for values in memory.on],
            active=[mask[:, :0] for mask in memory.active],
            outputs=memory.outputs[:, :0],
        )
        plain = model.head(model.backbone(x)).unflatten(0, (2, -1))
        torch.testing.assert_close(model.predict(x, empty), plain)
        assert (model.predict(x, memory) - plain).abs().mean() > 0.01, "the test sees nothing"


def test_values_of_zero_shift_nothing() -> None:
    model = built()
    with torch.no_grad():
        for value in model.values:
            value[-1].weight.zero_()
            value[-1].bias.zero_()
        support, labels, query = task([1, 1, 1])
        logits = model(support, labels, query, 3)
        plain = model.head(model.backbone(model.backbone.preprocess(query.flatten(0, 1))))
    torch.testing.assert_close(logits.flatten(0, 1), plain)


@pytest.mark.parametrize("keys", ["own", "shared"])
def test_order_of_support_does_not_matter_and_classes_may_trade_places_with_their_outputs(
    keys: str,
) -> None:
    model = built(f"method.keys={keys}")
    support, labels, query = task([1, 2, 3])
    order, renamed = torch.tensor([4, 0, 5, 2, 1, 3]), torch.tensor([2, 0, 1])
    turned = copy.deepcopy(model)
    with torch.no_grad():
        plain = model(support, labels, query, 3)
        shuffled = model(support[:, order], labels[:, order], query, 3)
        turned.head.weight[renamed] = model.head.weight.clone()
        turned.head.bias[renamed] = model.head.bias.clone()
        for new, old in zip(turned.values, model.values, strict=True):
            new[0].weight[:, renamed] = old[0].weight.clone()
        permuted = turned(support, renamed[labels], query, 3)
    torch.testing.assert_close(shuffled, plain, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(permuted[:, :, renamed], plain, rtol=1e-4, atol=1e-4)


def test_tasks_and_queries_are_answered_apart() -> None:
    model = built()
    support, labels, query = task([2, 1, 1])
    with torch.no_grad():
        both = model(support, labels, query, 3)
        alone = model(support[1:], labels[1:], query[1:, 2:3], 3)
    torch.testing.assert_close(both[1:, 2:3], alone, rtol=1e-4, atol=1e-4)
    assert not model.sees_queries_together


def test_fewer_classes_than_outputs_are_answered_and_more_are_refused() -> None:
    model = built()
    support, labels, query = task([2, 2])
    with torch.no_grad():
        assert model(support, labels, query, 2).shape == (2, 4, 2)
        feedback_free = copy.deepcopy(model)
        feedback_free.head.weight[2] += 100.0  # the absent class's output takes no part
        for value in (model.values, feedback_free.values):
            for network in value:
                network[0].weight[:, 2] = 7.0
        torch.testing.assert_close(
            feedback_free(support, labels, query, 2), model(support, labels, query, 2)
        )
    with pytest.raises(UserError, match=r"tells at most 3 classes apart.* has 4: train"):
        model(*task([1, 1, 1, 1]), 4)


@pytest.mark.parametrize(
    "settings",
    [[], ["method.keys=shared"], ["backbone.name=resnet12", "backbone.width=2"]],
    ids=["conv4", "shared", "resnet12"],
)
def test_gradients_reach_every_parameter_in_training(settings: list[str]) -> None:
    model = built(*settings).train()
    support, labels, query = task([2, 2, 2])
    logits = model(support, labels, query, 3).flatten(0, 1)
    nn.functional.cross_entropy(logits, torch.arange(8) % 3).backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert missing == []


def test_each_pass_has_its_own_running_statistics() -> None:
    model = built("method.keys=shared").train()
    before = {name: b.clone() for name, b in model.named_buffers()}
    x = model.backbone.preprocess(task([1, 1, 1])[0].flatten(0, 1))
    model.describe(x, torch.arange(3).repeat(2, 1))
    moved = {name for name, b in model.named_buffers() if not torch.equal(b, before[name])}
    assert {name.partition(".")[0] for name in moved} == {"description"}
    assert len(moved) == 3 * 4
    assert {id(b) for b in model.statistics()} == {
        id(b) for name, b in model.named_buffers() if "pixel" not in name
    }
    plain = Conv4(3, 4, activation="relu", image_size=16)
    plain.load_state_dict(model.backbone.state_dict())
    with torch.no_grad():
        plain.train()(x)
    state = dict(plain.named_buffers())
    for number in range(4):
        found = getattr(model.description, f"running_mean_{number}").numpy()
        start = before[f"description.running_mean_{number}"].numpy()
        own = before[f"backbone.units.{number}.norm.running_mean"].numpy()
        batch = (state[f"units.{number}.norm.running_mean"].numpy() - 0.95 * own) / 0.05
        np.testing.assert_allclose(found, 0.95 * start + 0.05 * batch, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("method.shifted=5", r"method\.shifted must be between 0 and 4"),
        ("method.keys=none", r"method\.keys must be"),
        ("backbone.mirrored=true", r"mirrored must be false with method\.name 'adaresnet'"),
        ("validation.way=5", r"validation\.way is 5, but the network has as many outputs"),
    ],
)
def test_settings_that_make_no_sense_are_refused(setting: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Config().with_settings([*SETTINGS, setting])
