"""Batch norm by the batch's own statistics: no memory, the same at test, on every path."""

import copy

import numpy as np
import pytest
import torch

from tadam.nn.backbones.conv4 import Conv4
from tadam.nn.backbones.resnet12 import ResNet12
from tadam.nn.composed_norm import compose_norms
from tadam.nn.conv_unit import ConvNorm
from tadam.nn.fast import guard, plain_autograd
from tadam.nn.norm import running_affine, use_batch_statistics


def test_batch_statistics_are_those_of_the_batch_in_training_and_at_test() -> None:
    torch.manual_seed(0)
    layer = ConvNorm(2, 3, 3)
    use_batch_statistics(layer)
    x = torch.randn(5, 3, 4, 4) * 7 + 2
    values = x.numpy().astype(np.float64)
    mean = values.mean(axis=(0, 2, 3), keepdims=True)
    expected = (values - mean) / np.sqrt(values.var(axis=(0, 2, 3), keepdims=True) + 1e-3)
    for training in (True, False):
        found = layer.train(training).norm(x)
        np.testing.assert_allclose(found.detach(), expected, rtol=1e-4, atol=1e-5)
    assert not list(layer.buffers())
    with pytest.raises(ValueError, match="has no fixed scale"):
        running_affine(layer.norm)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("activation", ["swish", "relu"])
def test_fused_and_native_steps_agree_with_the_plain_ones(activation: str, training: bool) -> None:
    torch.manual_seed(0)
    networks = [
        ResNet12(width=16, image_size=16, activation=activation),
        Conv4(width=16, image_size=16, activation=activation),
    ]
    x = torch.randn(8, 3, 16, 16).contiguous(memory_format=torch.channels_last)
    for network in networks:
        use_batch_statistics(network.train(training))
        plain = copy.deepcopy(network)
        out = network(x)
        with plain_autograd():
            expected = plain(x)
        torch.testing.assert_close(out, expected, rtol=1e-3, atol=1e-4)
        for z in (out, expected):
            z.square().sum().backward()
        for (name, mine), other in zip(network.named_parameters(), plain.parameters(), strict=True):
            assert mine.grad is not None
            assert other.grad is not None
            worst = (mine.grad - other.grad).norm() / other.grad.norm().clamp_min(1e-3)
            assert worst < 1e-2, name


def test_the_kernels_take_a_norm_without_running_statistics() -> None:
    layer = ConvNorm(16, 16, 3)
    use_batch_statistics(layer)
    for training in (True, False):
        assert guard.normalises_by_batch([layer.train(training).norm])
        assert not guard.normalises_by_running([layer.norm])


def test_a_composed_norm_does_what_batch_norm_does() -> None:
    torch.manual_seed(0)
    plain = Conv4(width=3, image_size=16)
    composed = copy.deepcopy(plain)
    compose_norms(composed)
    x = torch.randn(4, 3, 16, 16) + 1
    with plain_autograd():
        for training in (True, True, False):
            found, expected = (net.train(training)(x) for net in (composed, plain))
            torch.testing.assert_close(found, expected)
    state = plain.state_dict()
    assert composed.state_dict().keys() == state.keys()
    for name, tensor in composed.state_dict().items():
        torch.testing.assert_close(tensor, state[name], msg=name)
