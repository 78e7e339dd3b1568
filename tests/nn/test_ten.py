"""TEN maps a task representation to gamma = 1 + gamma0 * h and beta = beta0 * g, layer by layer."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

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
