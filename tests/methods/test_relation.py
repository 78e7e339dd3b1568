"""Relation Net: sums of support maps, compared pair by pair, trained by squared error."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tadam.config import Config
from tadam.errors import UserError
from tadam.methods.base import InputSpec, build_model
from tadam.methods.relation import RelationModule, RelationNet, class_maps, squared_error

SETTINGS = [
    "method.name=relation",
    "method.filters=3",
    "backbone.name=conv4",
    "backbone.width=4",
    "backbone.initialisation=he",
]


def built(*settings: str) -> Any:
    config = Config().with_settings([*SETTINGS, *settings])
    model: Any = build_model(config, InputSpec(3, 16, 0))
    model.initialise(config, [100.0] * 3, [50.0] * 3)
    for layer in (model.relation.hidden, model.relation.score):  # they start too small to tell
        nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(1))
    return model.eval()


def task(shots: list[int], queries: int = 6, tasks: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (tasks, sum(shots) + queries, 3, 16, 16), generator=generator)
    labels = torch.tensor([k for k, shot in enumerate(shots) for _ in range(shot)])
    return images[:, : sum(shots)], labels.expand(tasks, -1), images[:, sum(shots) :]


def test_a_class_is_the_sum_of_its_support_maps() -> None:
    maps = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0])[None, :, None, None, None].expand(1, 5, 2, 3, 3)
    labels = torch.tensor([[0, 1, 0, 1, 1]])  # unequal shots: two and three
    sums = class_maps(maps, labels, 2)
    assert sums.shape == (1, 2, 2, 3, 3)
    assert (sums[0, 0] == 1 + 4).all()
    assert (sums[0, 1] == 2 + 8 + 16).all()


@pytest.mark.parametrize("side", [7, 3, 2, 1])
def test_scores_are_those_of_concatenated_maps(side: int) -> None:
    torch.manual_seed(0)
    relation: Any = RelationModule((4, side), 5, 3)
    classes, queries = torch.randn(2, 3, 4, side, side), torch.randn(2, 6, 4, side, side)
    scores = relation(classes, queries)
    first, second = (
        nn.Sequential(
            unit.conv,
            nn.BatchNorm2d(5, eps=1e-3),
            nn.ReLU(),
            nn.MaxPool2d(2) if pools else nn.Identity(),
        )
        for unit, pools in ((relation.first, side > 1), (relation.second, side > 3))
    )
    pairs = torch.stack(
        [torch.cat([c, q]) for t in range(2) for q in queries[t] for c in classes[t]]
    )
    x = second(first(pairs)).flatten(1)
    expected = relation.score(relation.hidden(x).relu()).view(2, 6, 3)
    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-5)


def normalised(x: Tensor, norm: nn.BatchNorm2d) -> Tensor:
    """By the mean and variance of this batch."""
    mean, variance = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), False, keepdim=True)
    scale, shift = (v[:, None, None] for v in (norm.weight, norm.bias))
    return (x - mean) / (variance + 1e-3).sqrt() * scale + shift


def unit(x: Tensor, layer: Any, pools: bool) -> Tensor:
    x = normalised(nn.functional.conv2d(x, layer.conv.weight, padding=1), layer.norm).relu()
    return nn.functional.max_pool2d(x, 2) if pools else x


def by_the_paper(model: Any, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
    """Scores of one task, pair by pair: support set, queries and pairs are a batch each."""
    maps = []
    for images in (support, query):
        x = (images - 100.0) / 50.0  # the mean and the deviation it was initialised with
        for number, layer in enumerate(model.backbone.units):
            x = unit(x, layer, pools=number < 2)
        maps.append(x)
    classes = [maps[0][labels == k].sum(dim=0) for k in range(3)]
    x = torch.stack([torch.cat([c, q]) for q in maps[1] for c in classes])
    for layer in (model.relation.first, model.relation.second):
        x = unit(x, layer, pools=True)
    return model.relation.score(model.relation.hidden(x.flatten(1)).relu()).view(-1, 3)  # type: ignore[no-any-return]


@pytest.mark.parametrize("shots", [[1, 1, 1], [1, 3, 2]], ids=["equal", "unequal"])
def test_answers_are_those_of_a_plain_computation_task_by_task(shots: list[int]) -> None:
    model = built("backbone.pooled_units=2", "backbone.activation=relu")
    generator = torch.Generator().manual_seed(2)
    for norm in (m for m in model.modules() if isinstance(m, nn.BatchNorm2d)):
        nn.init.uniform_(norm.weight, 0.5, 1.5, generator=generator)
        nn.init.normal_(norm.bias, generator=generator)
    tasks = task(shots)
    with torch.no_grad():
        scores = model(*tasks, 3)
        expected = [by_the_paper(model, *one) for one in zip(*tasks, strict=True)]
    torch.testing.assert_close(scores, torch.stack(expected), rtol=1e-4, atol=1e-4)


def test_the_loss_is_the_squared_error_to_one_for_the_right_class_and_zero_for_others() -> None:
    scores, targets = np.array([[2.0, -1.0, 0.0], [0.5, 3.0, -2.0]]), np.array([1, 0])
    r = 1 / (1 + np.exp(-scores))
    by_hand = (r[0, 0] ** 2 + (r[0, 1] - 1) ** 2 + r[0, 2] ** 2) / 3
    by_hand += ((r[1, 0] - 1) ** 2 + r[1, 1] ** 2 + r[1, 2] ** 2) / 3
    loss = squared_error(torch.tensor(scores), torch.tensor(targets), 0.0)
    assert loss.item() == pytest.approx(by_hand / 2)
    update = built().updates(Config().with_settings(SETTINGS))[0]
    assert update.loss is squared_error


@pytest.mark.parametrize("statistics", ["true", "false"])
def test_order_of_support_and_names_of_classes_do_not_matter(statistics: str) -> None:
    model = built(f"method.batch_statistics={statistics}")
    support, labels, query = task([1, 2, 3])
    order, renamed = torch.tensor([4, 0, 5, 2, 1, 3]), torch.tensor([2, 0, 1])
    with torch.no_grad():
        plain = model(support, labels, query, 3)
        shuffled = model(support[:, order], labels[:, order], query, 3)
        permuted = model(support, renamed[labels], query, 3)
    assert plain.std(dim=2).mean() > 0.01
    torch.testing.assert_close(shuffled, plain, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(permuted[:, :, renamed], plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("together", [True, False])
def test_batch_statistics_let_queries_see_each_other_but_never_another_task(
    together: bool,
) -> None:
    model = built(f"method.batch_statistics={str(together).lower()}")
    support, labels, query = task([2, 2])
    with torch.no_grad():
        both = model(support, labels, query, 2)
        first = model(support[:1], labels[:1], query[:1], 2)
        fewer = model(support[:1], labels[:1], query[:1, :3], 2)
    torch.testing.assert_close(both[:1], first)
    assert model.sees_queries_together == together
    assert torch.allclose(first[:, :3], fewer, atol=1e-6) != together


def test_gradients_reach_every_parameter_of_both_backbones() -> None:
    for settings in ([], ["backbone.name=resnet12", "backbone.width=2"]):
        model = built(*settings).train()
        support, labels, query = task([2, 2])
        loss = squared_error(
            model(support, labels, query, 2).flatten(0, 1), torch.arange(12) % 2, 0.0
        )
        loss.backward()
        missing = [
            name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()
        ]
        assert missing == []


def test_what_it_cannot_take_is_refused_in_a_sentence() -> None:
    with pytest.raises(UserError, match=r"mirrored must be false with method\.name 'relation'"):
        Config().with_settings([*SETTINGS, "backbone.mirrored=true"])
    config = Config().with_settings(["method.name=relation", "backbone.name=pixels"])
    with pytest.raises(UserError, match="Pixels has no feature maps"):
        RelationNet.build(config, InputSpec(3, 16, 0))
    with pytest.raises(UserError, match=r"method\.hidden must be between 1 and 1024"):
        Config().with_settings([*SETTINGS, "method.hidden=0"])
