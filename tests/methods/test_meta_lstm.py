"""The Meta-LSTM: its cell against its equations in NumPy, and what it may not depend on."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from tadam.errors import UserError
from tadam.methods.meta_lstm import (
    LearnerState,
    MetaLearner,
    MetaLstm,
    MetaLstmConfig,
    preprocess_number,
)
from tadam.nn.backbones.conv4 import Conv4
from tadam.nn.fast import plain_autograd

Floats = npt.NDArray[np.float64]


def small_model(**settings: Any) -> MetaLstm:
    torch.manual_seed(0)
    config = MetaLstmConfig(inner_steps=3, hidden=4, **settings)
    model = MetaLstm(Conv4(1, 3, "flat", "swish", 16), 2, config)
    model.meta_learner.initialise(2.0, -1.0, torch.Generator().manual_seed(0))
    for weight in (*model.meta_learner.lstm.parameters(), model.meta_learner.forget.weight):
        nn.init.normal_(weight, std=0.3)
    return model.double()


def episode(tasks: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Two classes of two and one shots; four queries."""
    dice = torch.Generator().manual_seed(1)
    images = torch.rand(tasks, 7, 1, 16, 16, generator=dice, dtype=torch.float64)
    return images[:, :3], torch.tensor([[0, 1, 0]] * tasks), images[:, 3:]


def sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)))


@pytest.mark.parametrize(
    ("number", "pair"),
    [
        (1.0, (0.0, 1.0)),
        (-np.exp(-5.0), (-0.5, -1.0)),
        (np.exp(-20.0), (-1.0, np.exp(-10.0))),
        (-1e-6, (-1.0, -1e-6 * np.exp(10.0))),
        (0.0, (-1.0, 0.0)),
    ],
)
def test_numbers_are_preprocessed_as_andrychowicz_et_al_propose(
    number: float, pair: tuple[float, float]
) -> None:
    found = preprocess_number(torch.tensor(number, dtype=torch.float64))
    np.testing.assert_allclose(found, pair, rtol=1e-6)


def test_the_cell_follows_its_equations() -> None:
    torch.manual_seed(0)
    cell = MetaLearner(4).double()
    dice = np.random.default_rng(0)
    thetas, steps = dice.normal(size=(2, 3)), dice.normal(size=(2, 2, 3))
    losses = dice.uniform(0.5, 2, size=(2, 2))
    state = LearnerState(torch.from_numpy(thetas))
    for t in range(2):
        state = cell(state, torch.from_numpy(losses[t]), torch.from_numpy(steps[t]))
    w = {name: p.detach().numpy() for name, p in cell.named_parameters()}
    for task in range(2):
        for p in range(3):  # each coordinate by itself
            h, c, f, i, theta = np.zeros(4), np.zeros(4), 0.0, 0.0, thetas[task, p]
            for t in range(2):
                loss, step = losses[t, task], steps[t, task, p]
                seen = [np.log(loss) / 10, 1.0, np.log(abs(step)) / 10, np.sign(step)]
                both = w["lstm.weight_ih"] @ seen + w["lstm.bias_ih"]
                both = both + w["lstm.weight_hh"] @ h + w["lstm.bias_hh"]
                enter, keep, new, out = np.split(both, 4)
                c = sigmoid(keep) * c + sigmoid(enter) * np.tanh(new)
                h = sigmoid(out) * np.tanh(c)
                f, i = (
                    sigmoid(w[f"{gate}.weight"][0] @ [*h, theta, old] + w[f"{gate}.bias"])[0]
                    for gate, old in (("forget", f), ("input", i))
                )
                theta = f * theta - i * step
            assert state.theta[task, p].item() == pytest.approx(theta)


def test_it_starts_as_plain_gradient_descent() -> None:
    """With gates that ignore all but their biases, theta <- f * theta - i * gradient."""
    model = small_model().train()
    with torch.no_grad():
        for layer, bias in ((model.meta_learner.forget, 30.0), (model.meta_learner.input, -1.0)):
            layer.weight.zero_()
            layer.bias.fill_(bias)
    support, labels, query = episode()
    network = nn.Sequential(model.backbone, model.head)
    rate, answers = 1 / (1 + np.e), []
    with plain_autograd():
        for x, y, q in zip(support, labels, query, strict=True):
            weights: dict[str, Tensor] = dict(network.named_parameters())
            for _ in range(3):
                loss = F.cross_entropy(functional_call(network, weights, (x,)), y)
                steps = torch.autograd.grad(loss, list(weights.values()))
                weights = {
                    n: w - rate * g for (n, w), g in zip(weights.items(), steps, strict=True)
                }
            answers.append(functional_call(network, weights, (q,)))
    torch.testing.assert_close(model(support, labels, query, 2), torch.stack(answers))


def test_at_test_queries_are_normalised_by_the_statistics_of_the_support_set() -> None:
    model = small_model().eval()
    support, labels, query = episode()
    expected = model(support, labels, query, 2)
    torch.testing.assert_close(model(support, labels, query[:, :1], 2), expected[:, :1])
    assert not model.sees_queries_together
    x = model.preprocessed(support)
    _, statistics = model.learnt(x, labels, 2)
    weight = model.backbone.get_parameter("units.0.conv.weight")
    with torch.no_grad():  # the first convolution sees the same images at each step
        first = F.conv2d(x[1], weight, padding=1).mean(dim=(0, 2, 3))
    moved = (statistics["units.0.norm.running_mean"][1] - first).norm() / first.norm()
    assert moved < 0.5  # from zeros, 0.9 of the way at each step, while the weights move
    assert not model.backbone.training
    assert torch.equal(  # the next task starts afresh
        model.norm_statistics()["units.0.norm.running_mean"], torch.zeros(3, dtype=torch.float64)
    )


def test_with_support_norm_queries_stay_apart_and_training_answers_as_the_test_does() -> None:
    """A task whose queries are its support images is answered as by plain batch norm over them."""
    model = small_model(support_norm=True).train()
    support, labels, query = episode()
    expected = model(support, labels, query, 2)
    torch.testing.assert_close(model(support, labels, query[:, :1], 2), expected[:, :1])
    torch.testing.assert_close(model.eval()(support, labels, query, 2), expected)
    assert not model.sees_queries_together
    x = model.preprocessed(support)
    weights, statistics = model.learnt(x, labels, 2)
    for task, found in enumerate(model.eval()(support, labels, support, 2)):
        own = [{n: v[task] for n, v in part.items()} for part in (weights, statistics)]
        model.backbone.train()
        torch.testing.assert_close(model.run(own[0], own[1], x[task])[0], found)


def test_gradients_of_the_learner_are_constants_to_the_meta_learner() -> None:
    """The gradient of theta_0 along the forget gates alone: f_3 * f_2 * f_1 of the final one."""
    model = small_model().train()
    with torch.no_grad():
        for layer in (model.meta_learner.forget, model.meta_learner.input):
            layer.weight.zero_()
    support, labels, query = episode(tasks=1)
    weights, statistics = model.learnt(model.preprocessed(support), labels, 2)
    one = {name: w[0].detach().requires_grad_() for name, w in weights.items()}
    logits, _ = model.run(one, {n: s[0] for n, s in statistics.items()}, query[0])
    final = torch.autograd.grad(logits.square().sum(), list(one.values()))
    found = torch.autograd.grad(
        model(support, labels, query, 2).square().sum(),
        [*model.backbone.parameters(), *model.head.parameters()],
    )
    share = torch.sigmoid(model.meta_learner.forget.bias) ** 3
    for mine, other in zip(found, final, strict=True):
        torch.testing.assert_close(mine, share * other)


def test_gradients_reach_every_parameter_and_answers_need_none() -> None:
    model = small_model().train()
    support, labels, query = episode()
    model(support, labels, query, 2).square().sum().backward()
    assert all(p.grad is not None and p.grad.norm() > 0 for p in model.parameters())
    model.eval()
    assert model.needs_gradients
    with torch.no_grad():
        without = model(support, labels, query, 2)
    torch.testing.assert_close(model(support, labels, query, 2), without)


def test_predictions_follow_the_labels_and_ignore_the_order_of_the_support_set() -> None:
    support, labels, query = episode()
    order = torch.tensor([2, 0, 1])
    for shared in (True, False):
        model = small_model(shared_head=shared).eval()
        expected = model(support, labels, query, 2)
        shuffled = model(support[:, order], labels[:, order], query, 2)
        torch.testing.assert_close(shuffled, expected)
        if not shared:
            with torch.no_grad():
                for parameter in model.head.parameters():
                    parameter.copy_(parameter.flip(0))
        torch.testing.assert_close(model(support, 1 - labels, query, 2), expected.flip(-1))


def test_the_adapted_network_answers_as_the_method() -> None:
    support, labels, query = episode(tasks=1)
    for by_support in (False, True):
        model = small_model(support_norm=by_support).eval()
        network = model.adapted(support[0], labels[0], 2)
        torch.testing.assert_close(network(query[0]), model(support, labels, query, 2)[0])


def test_other_numbers_of_classes_are_refused() -> None:
    support, _, query = episode()
    three = torch.tensor([[2, 1, 0]] * 2)
    with pytest.raises(UserError, match=r"trained for tasks of 2 classes .* tasks of 3"):
        small_model()(support, three, query, 3)
    assert small_model(shared_head=True)(support, three, query, 3).shape == (2, 4, 3)
