"""MAML: its inner steps worked by hand, its meta-gradient, and what it may not depend on."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from tadam.config import Config
from tadam.errors import UserError
from tadam.methods.base import InputSpec, build_model
from tadam.methods.maml import Maml, MamlConfig
from tadam.nn.backbone import Backbone
from tadam.nn.backbones.conv4 import Conv4
from tadam.nn.fast import plain_autograd
from tadam.nn.film import Film


class Flat(Backbone):
    """Pixels times a matrix."""

    def __init__(self, features: int = 3, image_size: int = 2) -> None:
        super().__init__(1, image_size)
        self.feature_size = features
        self.matrix = nn.Parameter(torch.randn(features, image_size**2))

    def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
        """(N, 1, H, W) -> (N, features)."""
        return F.linear(x.flatten(1), self.matrix)


def conv_maml(**settings: Any) -> Maml:
    """Smooth, so that finite differences mean something."""
    torch.manual_seed(0)
    backbone = Conv4(1, 3, "flat", "swish", 16, strided=True)
    model = Maml(backbone, 2, MamlConfig(inner_rate=0.3, inner_steps=2, test_steps=2, **settings))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.double()


def episode(tasks: int = 2, side: int = 16, seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Two classes of two and one shots; four queries."""
    dice = torch.Generator().manual_seed(seed)
    support = torch.rand(tasks, 3, 1, side, side, generator=dice, dtype=torch.float64)
    query = torch.rand(tasks, 4, 1, side, side, generator=dice, dtype=torch.float64)
    return support, torch.tensor([[0, 1, 0]] * tasks), query


def test_two_inner_steps_worked_by_hand() -> None:
    torch.manual_seed(0)
    model = Maml(Flat(), 2, MamlConfig(inner_rate=0.1, inner_steps=1, test_steps=2)).double().eval()
    support, labels, query = episode(tasks=1, side=2)
    matrix, head, bias = (
        p.detach().numpy().copy()
        for p in (model.backbone.get_parameter("matrix"), *model.head.parameters())
    )
    x, y = support[0].flatten(1).numpy(), np.eye(2)[labels[0]]
    for _ in range(2):
        z = x @ matrix.T
        scores = np.exp(z @ head.T + bias)
        wrong = (scores / scores.sum(axis=1, keepdims=True) - y) / len(x)  # of the mean loss
        of_matrix = (wrong @ head).T @ x
        head, bias = head - 0.1 * wrong.T @ z, bias - 0.1 * wrong.sum(axis=0)
        matrix = matrix - 0.1 * of_matrix
    expected = query[0].flatten(1).numpy() @ matrix.T @ head.T + bias
    with torch.no_grad():
        np.testing.assert_allclose(model(support, labels, query, 2)[0], expected, rtol=1e-10)


def query_loss(model: Maml) -> Tensor:
    support, labels, query = episode()
    logits: Tensor = model(support, labels, query, 2)
    return F.cross_entropy(logits.flatten(0, 1), torch.tensor([0, 1, 1, 0] * 2))


def slope(model: Maml, direction: list[Tensor]) -> float:
    """Of the loss along a direction, by finite differences."""
    values = []
    for sign in (1e-5, -1e-5):
        moved = copy.deepcopy(model)
        with torch.no_grad():
            for parameter, part in zip(moved.parameters(), direction, strict=True):
                parameter.add_(sign * part)
            values.append(query_loss(moved).item())
    return (values[0] - values[1]) / 2e-5


@pytest.mark.parametrize("settings", [{}, {"batch_statistics": False}, {"shared_head": True}])
def test_the_meta_gradient_agrees_with_finite_differences(settings: dict[str, bool]) -> None:
    model = conv_maml(**settings).train()
    gradients = torch.autograd.grad(query_loss(model), list(model.parameters()))
    for i, (name, parameter) in enumerate(model.named_parameters()):
        dice = torch.Generator().manual_seed(i)
        here = [torch.zeros_like(p) for p in model.parameters()]
        here[i] = torch.randn(parameter.shape, generator=dice, dtype=torch.float64)
        expected = slope(model, here)
        assert (gradients[i] * here[i]).sum().item() == pytest.approx(expected, rel=1e-4, abs=1e-8)
        assert gradients[i].norm() > 0, name


def test_the_first_order_gradient_is_that_of_the_queries_at_the_adapted_weights() -> None:
    model = conv_maml(first_order=True).train()
    second = conv_maml().train()
    found = torch.autograd.grad(query_loss(model), list(model.parameters()))
    exact = torch.autograd.grad(query_loss(second), list(second.parameters()))
    assert not torch.allclose(found[0], exact[0], rtol=1e-2)
    support, labels, query = episode()
    expected = [torch.zeros_like(p) for p in model.parameters()]
    for x, y, q in zip(support, labels, query, strict=True):
        weights, _ = model.adapt(model.weights(2), {}, x, y)
        leaves = {name: w.detach().requires_grad_() for name, w in weights.items()}
        loss = F.cross_entropy(model.run(leaves, {}, q)[0], torch.tensor([0, 1, 1, 0]))
        for total, part in zip(
            expected, torch.autograd.grad(loss, list(leaves.values())), strict=True
        ):
            total += part / 2
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other)


def one_by_one(model: Maml, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
    """MAML as one would first write it: a loop over tasks, PyTorch's own gradients."""
    network = nn.Sequential(model.backbone, model.head)
    answers = []
    for x, y, q in zip(support, labels, query, strict=True):
        weights: dict[str, Tensor] = dict(network.named_parameters())
        if model.shared_head:
            start = model.weights(2)
            weights |= {"1.weight": start["head.weight"], "1.bias": start["head.bias"]}
        for _ in range(2):
            with plain_autograd():
                loss = F.cross_entropy(functional_call(network, weights, (x,)), y)
            gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
            pairs = zip(weights.items(), gradients, strict=True)
            weights = {name: weight - 0.3 * step for (name, weight), step in pairs}
        answers.append(functional_call(network, weights, (q,)))
    return torch.stack(answers)


@pytest.mark.parametrize("shared_head", [False, True])
def test_all_tasks_at_once_are_answered_as_each_alone_with_and_without_gradients(
    shared_head: bool,
) -> None:
    model = conv_maml(shared_head=shared_head).train()
    support, labels, query = episode(tasks=3)
    expected = one_by_one(model, support, labels, query)
    found = model(support, labels, query, 2)
    torch.testing.assert_close(found, expected)
    parameters = list(model.parameters())
    for mine, other in zip(
        torch.autograd.grad(found.square().sum(), parameters),
        torch.autograd.grad(expected.square().sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(mine, other)
    model.eval()
    assert model.needs_gradients
    for context in (torch.enable_grad(), torch.no_grad()):
        with context:
            found = model(support, labels, query, 2)
        assert not found.requires_grad
        torch.testing.assert_close(found, expected.detach())


@pytest.mark.parametrize("first_order", [False, True])
def test_one_step_from_a_shared_head_needs_no_gradient_of_the_network(first_order: bool) -> None:
    model = conv_maml(shared_head=True, first_order=first_order).train()
    model.settings = replace(model.settings, inner_steps=1, test_steps=1)
    parameters = list(model.parameters())
    with plain_autograd():
        general = model(*episode(), 2)
    expected = torch.autograd.grad(general.square().sum(), parameters)
    found = model(*episode(), 2)
    torch.testing.assert_close(found, general)
    gradients = torch.autograd.grad(found.square().sum(), parameters)
    for mine, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(mine, other)
    torch.testing.assert_close(model.eval()(*episode(), 2), general.detach())


def test_one_step_by_the_kernels_answers_as_in_plain_pytorch() -> None:
    torch.manual_seed(0)
    settings = MamlConfig(inner_rate=0.3, inner_steps=1, test_steps=1, shared_head=True)
    model = Maml(Conv4(3, 8, "flat", "relu", 16), 2, settings).train()
    dice = torch.Generator().manual_seed(1)
    support, query = (torch.rand(2, n, 3, 16, 16, generator=dice) * 255 for n in (3, 4))
    labels = torch.tensor([[0, 1, 0]] * 2)
    parameters = list(model.parameters())
    found = model(support, labels, query, 2)
    with plain_autograd():
        expected = model(support, labels, query, 2)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    pairs = [torch.autograd.grad(one.square().sum(), parameters) for one in (found, expected)]
    for mine, other in zip(*pairs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-2, atol=1e-2 * other.abs().max().item())


def test_one_step_from_a_shared_head_is_a_prototype_by_dot_product() -> None:
    model = conv_maml(shared_head=True).eval()
    model.settings = replace(model.settings, test_steps=1)
    support, _, query = episode(tasks=1)
    labels = torch.tensor([[0, 1, 0, 1]])
    support = torch.cat([support, query[:, :1]], dim=1)
    z, z_query = (model.backbone(model.backbone.preprocess(x[0])) for x in (support, query))
    prototypes = torch.stack([z[labels[0] == k].mean(dim=0) for k in range(2)])
    scores = 0.3 / 2 * z_query @ prototypes.T  # the inner rate, shared by two classes
    found = model(support, labels, query, 2)[0]
    torch.testing.assert_close(found - found[:, :1], (scores - scores[:, :1]).detach())


def test_test_steps_are_those_of_evaluation() -> None:
    model = conv_maml().eval()
    model.settings = MamlConfig(inner_rate=0.3, inner_steps=2, test_steps=7)
    support, labels, query = episode()
    more = model(support, labels, query, 2)
    model.train()
    assert not torch.allclose(more, model(support, labels, query, 2), rtol=1e-3)
    model.settings = MamlConfig(inner_rate=0.3, inner_steps=7, test_steps=2)
    torch.testing.assert_close(more, model(support, labels, query, 2))


def test_predictions_follow_the_labels_and_ignore_the_order_of_the_support_set() -> None:
    support, labels, query = episode()
    order = torch.tensor([2, 0, 1])
    for shared in (True, False):
        model = conv_maml(shared_head=shared).eval()
        expected = model(support, labels, query, 2)
        shuffled = model(support[:, order], labels[:, order], query, 2)
        torch.testing.assert_close(shuffled, expected)
        if not shared:  # each class has a row of its own, which must follow
            with torch.no_grad():
                for parameter in model.head.parameters():
                    parameter.copy_(parameter.flip(0))
        torch.testing.assert_close(model(support, 1 - labels, query, 2), expected.flip(-1))


def test_only_a_shared_head_fits_other_numbers_of_classes() -> None:
    support, _, query = episode()
    three = torch.tensor([[2, 1, 0]] * 2)
    assert conv_maml(shared_head=True).eval()(support, three, query, 3).shape == (2, 4, 3)
    with pytest.raises(UserError, match=r"trained for tasks of 2 classes .* tasks of 3"):
        conv_maml()(support, three, query, 3)


@pytest.mark.parametrize(("shared_head", "steps"), [(True, 1), (True, 2), (False, 1)])
def test_the_first_step_from_a_shared_head_changes_nothing_else(
    shared_head: bool, steps: int
) -> None:
    model = conv_maml(shared_head=shared_head).eval()
    model.settings = replace(model.settings, test_steps=steps)
    support, labels, _ = episode()
    weights, _ = model.learnt(model.preprocessed(support), labels, 2)
    before = model.weights(2)
    moved = {name for name, w in weights.items() if (w - before[name]).abs().max() > 1e-12}
    assert "head.weight" in moved
    assert (moved == {"head.weight", "head.bias"}) == (shared_head and steps == 1)


def test_queries_are_seen_together_by_batch_statistics_only() -> None:
    support, labels, query = episode()
    for together in (True, False):
        model = conv_maml(batch_statistics=together)
        assert model.sees_queries_together == together
        model.train()(support, labels, query, 2)  # moves running statistics, if any
        both = model.eval()(support, labels, query, 2)
        alone = model(support, labels, query[:, :1], 2)
        assert torch.allclose(both[:, :1], alone) == (not together)


def test_running_statistics_are_the_mean_over_tasks() -> None:
    support, labels, query = episode(tasks=3)
    model = conv_maml(batch_statistics=False).train()
    single = [copy.deepcopy(model) for _ in range(3)]
    model(support, labels, query, 2)
    for t, other in enumerate(single):
        other(*(x[t : t + 1] for x in (support, labels, query)), 2)
    buffers = [other.norm_statistics() for other in single]
    for name, buffer in model.norm_statistics().items():
        expected = torch.stack([b[name].double() for b in buffers]).mean(dim=0)
        torch.testing.assert_close(buffer.double(), expected, msg=name)
    assert model.norm_statistics()["units.0.norm.num_batches_tracked"] == 3  # two steps, queries


def test_the_adapted_network_answers_each_image_beside_the_support_set() -> None:
    support, labels, query = episode(tasks=1)
    for together in (True, False):
        model = conv_maml(batch_statistics=together)
        model.train()(support, labels, query, 2)
        network = model.eval().adapted(support[0], labels[0], 2)
        beside = [torch.cat([one[None], support[0]])[None] for one in query[0]]
        expected = torch.cat([model(support, labels, b, 2)[0, :1] for b in beside])
        torch.testing.assert_close(network(query[0]), expected)
        torch.testing.assert_close(network(query[0, 2:3]), expected[2:3])


def test_a_network_without_weights_is_refused() -> None:
    class Pixels(Backbone):
        feature_size = 4

    with pytest.raises(UserError, match=r"set backbone\.name to conv4 or resnet12"):
        Maml(Pixels(1, 2), 2, MamlConfig())
    with pytest.raises(UserError, match=r"method\.inner_rate must be above 0"):
        MamlConfig(inner_rate=0.0)


def test_resnet12_adapts_as_well() -> None:
    config = Config().updated(
        {"method": {"name": "maml", "inner_steps": 1}, "backbone": {"width": 2}}
    )
    model = build_model(config, InputSpec(3, 16, 0))
    images = torch.rand(2, 5, 3, 16, 16) * 255
    labels = torch.arange(5).expand(2, 5)
    model(images, labels, images, 5).square().sum().backward()
    assert all(p.grad is not None and p.grad.norm() > 0 for p in model.parameters())
