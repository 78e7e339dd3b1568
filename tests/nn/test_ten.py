"""TEN maps a task representation to gamma = 1 + gamma0 * h and beta = beta0 * g, layer by layer."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tadam.config import Config
from tadam.errors import UserError
from tadam.methods.base import InputSpec
from tadam.methods.tadam import Tadam
from tadam.nn.ten import LayerConditioner, ResidualMLP, TaskEmbeddingNetwork, initialise_ten


def swish(x: float) -> float:
    return x / (1 + float(np.exp(-x)))


def scalar_mlp(
    project: float, hidden: float, out: float, biases: Any = (0.0, 0.0, 0.0)
) -> ResidualMLP:
    mlp = ResidualMLP(1, 1)
    for layer, weight, bias in zip(
        (mlp.project, mlp.hidden, mlp.out), (project, hidden, out), biases, strict=True
    ):
        nn.init.constant_(layer.weight, weight)
        nn.init.constant_(layer.bias, bias)
    return mlp


def test_three_layers_two_skips_and_a_linear_end() -> None:
    mlp = scalar_mlp(2.0, -0.5, 3.0, biases=(1.0, 0.2, -4.0))
    a = swish(2.0 * 1.5 + 1.0)
    b = swish(-0.5 * a + 0.2 + a)
    expected = 3.0 * b - 4.0 + b
    assert mlp(torch.tensor([[1.5]])).item() == pytest.approx(expected, rel=1e-6)


def test_the_last_layer_can_be_negative_without_bound() -> None:
    mlp = scalar_mlp(1.0, 0.0, -101.0)  # a swish would stop at -0.28
    assert mlp(torch.tensor([[5.0]])).item() < -400


def test_gamma_is_one_plus_gamma0_h_and_beta_is_beta0_g() -> None:
    layer = LayerConditioner(1, 1)
    layer.gamma_net, layer.beta_net = scalar_mlp(1, 1, 1), scalar_mlp(1, 0, 0)
    nn.init.constant_(layer.gamma0, 0.5)
    nn.init.constant_(layer.beta0, -2.0)
    gamma, beta = layer(torch.tensor([[3.0]]))
    a = swish(3.0)
    assert gamma.item() == pytest.approx(1 + 0.5 * 2 * swish(2 * a), rel=1e-6)
    assert beta.item() == pytest.approx(-2.0 * swish(a), rel=1e-6)


def test_a_fresh_network_predicts_exactly_one_and_zero() -> None:
    ten: Any = TaskEmbeddingNetwork(4, [2, 3], [0, 1])
    for gamma, beta in ten(torch.randn(5, 4, generator=torch.Generator().manual_seed(0))):
        assert (gamma == 1).all()
        assert (beta == 0).all()


def test_only_the_chosen_layers_are_conditioned_each_at_its_own_width() -> None:
    ten: Any = TaskEmbeddingNetwork(4, [2, 3, 5, 7], [1, 3])
    film = ten(torch.zeros(6, 4))
    shapes = [None if pair is None else [tuple(v.shape) for v in pair] for pair in film]
    assert shapes == [None, [(6, 3), (6, 3)], None, [(6, 7), (6, 7)]]


def test_multipliers_are_numbered_from_one_as_in_the_paper() -> None:
    ten: Any = TaskEmbeddingNetwork(4, [2, 3, 5], [0, 2])
    nn.init.constant_(ten.conditioners["2"].gamma0, 0.25)
    nn.init.constant_(ten.conditioners["2"].beta0, -0.5)
    assert ten.multipliers() == {1: (0.0, 0.0), 3: (0.25, -0.5)}


def test_initialisation_is_glorot_uniform_with_zero_biases_and_multipliers() -> None:
    ten: Any = TaskEmbeddingNetwork(300, [200], [0])
    initialise_ten(ten, torch.Generator().manual_seed(0))
    layer: Any = ten.conditioners["0"]
    limit = (6 / (300 + 200)) ** 0.5
    weight = layer.gamma_net.project.weight.detach().numpy()
    assert limit * 0.999 < np.abs(weight).max() <= limit
    assert weight.std() == pytest.approx(limit / 3**0.5, rel=0.01)
    assert not layer.beta_net.out.bias.any()
    assert (layer.gamma0, layer.beta0) == (0, 0)
    assert not torch.equal(layer.gamma_net.out.weight, layer.beta_net.out.weight)


def shared_ten(**options: bool) -> Any:
    """One network of width 6 for layers 0 and 2, with every weight drawn."""
    ten: Any = TaskEmbeddingNetwork(4, [2, 3, 5], [0, 2], shared=6, **options)
    generator = torch.Generator().manual_seed(1)
    for parameter in ten.parameters():
        parameter.data.normal_(generator=generator)
    return ten


def test_a_shared_network_is_one_trunk_and_a_linear_layer_for_each_scale_and_shift() -> None:
    ten, task = shared_ten(base=True), torch.linspace(-1, 1, 12).reshape(3, 4)
    film = ten(task)
    assert [pair and [tuple(v.shape) for v in pair] for pair in film] == [
        [(3, 2), (3, 2)],
        None,
        [(3, 5), (3, 5)],
    ]
    weights = {name: tensor.detach().double() for name, tensor in ten.state_dict().items()}

    def linear(name: str, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(weights[f"{name}.bias"], x, weights[f"{name}.weight"].T)

    a = linear("trunk.0.project", task.double())
    a = a * a.sigmoid()
    b = linear("trunk.0.hidden", a) + a
    b = b * b.sigmoid()
    c = linear("trunk.0.out", b) + b
    c = c * c.sigmoid()
    for i, pair in ((0, film[0]), (2, film[2])):
        name = f"conditioners.{i}"
        for vector, kind in zip(pair, ("gamma", "beta"), strict=True):
            own = weights[f"{name}.{kind}0"] * linear(f"{name}.{kind}_net", c)
            expected = weights[f"{name}.base_{kind}"] + own
            torch.testing.assert_close(vector.double(), expected, rtol=1e-4, atol=1e-4)


def test_without_it_every_layer_has_the_same_weights_and_vectors_as_alone() -> None:
    ten: Any = TaskEmbeddingNetwork(4, [2, 3, 5], [0, 2])
    initialise_ten(ten, torch.Generator().manual_seed(5))
    alone = nn.ModuleDict({"0": LayerConditioner(4, 2), "2": LayerConditioner(4, 5)})
    initialise_ten(alone, torch.Generator().manual_seed(5))  # type: ignore[arg-type]
    assert list(ten.state_dict()) == [f"conditioners.{name}" for name in alone.state_dict()]
    task = torch.linspace(-1, 1, 12).reshape(3, 4)
    for i, layer in alone.items():
        for conditioner in (layer, ten.conditioners[i]):
            conditioner.get_parameter("gamma0").data.fill_(0.7)
            conditioner.get_parameter("beta0").data.fill_(-0.2)
        for own, expected in zip(ten(task)[int(i)], layer(task), strict=True):
            assert torch.equal(own, expected)


def test_every_layer_sends_gradients_into_the_shared_network() -> None:
    for layer in (0, 2):
        ten = shared_ten()
        gamma, beta = ten(torch.ones(1, 4))[layer]
        (gamma.sum() + beta.sum()).backward()
        for name, parameter in ten.named_parameters():
            reached = name.startswith(("trunk.", f"conditioners.{layer}."))
            assert (parameter.grad is not None and bool(parameter.grad.any())) == reached, name


def test_a_shared_network_changes_nothing_while_gamma0_and_beta0_are_zero() -> None:
    ten = shared_ten()
    for i in "02":
        ten.conditioners[i].gamma0.data.zero_()
        ten.conditioners[i].beta0.data.zero_()
    for pair in ten(torch.ones(3, 4)):
        assert pair is None or ((pair[0] == 1).all() and (pair[1] == 0).all())


def test_vectors_of_a_shared_network_go_through_one_row_and_back() -> None:
    ten = shared_ten()
    film = ten(torch.ones(3, 4))
    for before, after in zip(film, ten.from_rows(ten.as_rows(film)), strict=True):
        assert (before is None) == (after is None)
        for x, y in zip(before or (), after or (), strict=True):
            assert torch.equal(x, y)


def test_a_shared_network_is_smaller_and_has_its_width_from_the_recipe() -> None:
    def parameters(shared: int) -> dict[str, int]:
        config = Config().updated({"backbone": {"width": 4}, "conditioning": {"shared": shared}})
        ten = Tadam.build(config, InputSpec(3, 16, 0)).ten
        return {name: tensor.numel() for name, tensor in ten.state_dict().items()}  # type: ignore[union-attr]

    own, shared = parameters(0), parameters(8)
    assert not [name for name in own if "trunk" in name]
    assert shared["trunk.0.project.weight"] == 8 * 4 * 8  # 32 features
    assert sum(shared.values()) < sum(own.values()) / 4
    with pytest.raises(UserError, match=r"conditioning\.shared must be at least 0"):
        parameters(-1)
