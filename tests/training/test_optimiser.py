"""Weight decay, clipping, and a step that views weights in memory order."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from gradients import grad
from tadam.config import OptimiserConfig
from tadam.methods.base import Method
from tadam.training.optimiser import clip_gradients, make_optimiser, take_step


def test_an_update_is_gradient_plus_decay_with_momentum() -> None:
    layer, model = nn.Linear(1, 1), Method()
    model.layer = layer
    config = OptimiserConfig(learning_rate=0.5, momentum=0.9, weight_decay=0.1)
    optimiser = make_optimiser(model, lambda name: True, config)
    nn.init.constant_(layer.weight, 2.0)
    nn.init.constant_(layer.bias, 2.0)
    for _ in range(2):
        layer.weight.grad, layer.bias.grad = torch.ones(1, 1), torch.ones(1)
        optimiser.step()
    v1 = 1 + 0.1 * 2.0
    w1 = 2.0 - 0.5 * v1
    v2 = 0.9 * v1 + 1 + 0.1 * w1
    assert layer.weight.item() == pytest.approx(w1 - 0.5 * v2)
    assert layer.bias.item() == pytest.approx(2.0 - 0.5 * 1 - 0.5 * 1.9)


def clipped(mode: str, norm: float, gradients: list[Any]) -> list[npt.NDArray[np.float32]]:
    parameters = []
    for gradient in gradients:
        parameter = nn.Parameter(torch.zeros(np.shape(gradient)))
        parameter.grad = torch.tensor(gradient)
        parameters.append(parameter)
    parameters.append(nn.Parameter(torch.zeros(2)))  # took no part in this pass
    clip_gradients(parameters, OptimiserConfig(clip=mode, clip_norm=norm))
    assert parameters[-1].grad is None
    return [grad(p).numpy() for p in parameters[:-1]]


GRADIENTS: list[Any] = [
    [3.0, 4.0],
    [[0.0, 0.3], [0.4, 0.0]],
    12.0,
    [0.0, 0.0],
]  # norms 5, 0.5, 12, 0


@pytest.mark.parametrize("norm", [1.0, 6.0])
def test_clipping_per_parameter_scales_only_the_long_ones(norm: float) -> None:
    for ours, gradient in zip(clipped("parameter", norm, GRADIENTS), GRADIENTS, strict=True):
        length = np.sqrt(np.sum(np.square(gradient)))
        expected = np.array(gradient) * (norm / length if length > norm else 1.0)
        np.testing.assert_allclose(ours, expected, rtol=1e-6)


@pytest.mark.parametrize("norm", [1.0, 6.0, 14.0])
def test_global_clipping_scales_all_by_the_same_factor(norm: float) -> None:
    length = np.sqrt(5**2 + 0.5**2 + 12**2)  # 13.01
    factor = min(1.0, norm / length)
    for ours, gradient in zip(clipped("global", norm, GRADIENTS), GRADIENTS, strict=True):
        np.testing.assert_allclose(ours, np.array(gradient) * factor, rtol=1e-6)


def test_without_clipping_gradients_are_unchanged() -> None:
    for ours, gradient in zip(clipped("none", 1.0, GRADIENTS), GRADIENTS, strict=True):
        np.testing.assert_array_equal(ours, np.float32(gradient))


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_a_step_is_the_same_whatever_the_memory_layout(name: str) -> None:
    config = OptimiserConfig(name=name, weight_decay=0.1)
    start, *gradients = torch.randn(4, 5, 4, 3, 3, generator=torch.Generator().manual_seed(0))
    plain, last = torch.contiguous_format, torch.channels_last
    results = []
    for weights, of_gradient in ((plain, plain), (last, last), (last, plain), (plain, last)):
        model = Method()
        model.conv = nn.Conv2d(4, 5, 3, bias=False)
        (weight,) = model.parameters()
        weight.data = start.clone(memory_format=weights)
        where = weight.data_ptr()
        optimiser = make_optimiser(model, lambda name: True, config)
        for gradient in gradients:
            weight.grad = gradient.contiguous(memory_format=of_gradient)
            take_step(optimiser)
        assert weight.is_contiguous(memory_format=weights)
        assert weight.data_ptr() == where
        assert grad(weight).shape == weight.shape
        states = [v for v in optimiser.state[weight].values() if v.ndim > 0]
        assert all(value.shape == weight.shape for value in states)
        results.append([weight.detach(), *states])
    for other in results[1:]:
        for ours, expected in zip(other, results[0], strict=True):
            torch.testing.assert_close(ours, expected)
