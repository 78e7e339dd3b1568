"""Packed weights are used again while a weight stays the same, and never for another."""

import gc
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tadam import native
from tadam.native.convolution import convolve, pack
from tadam.nn.backbones.resnet12 import ResNet12
from tadam.nn.fast import constant_weights
from tadam.nn.fast.weights import WeightCache, packed

pytestmark = pytest.mark.skipif(not native.available(), reason="the native core was not built")


def draw(*shape: int, seed: int = 0) -> Tensor:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return values.contiguous(memory_format=torch.channels_last)


def convolved(x: Tensor, weight: Tensor) -> Tensor:
    return convolve(x, packed(weight), len(weight))[0]


def test_weights_that_follow_each_other_in_the_same_memory_are_told_apart() -> None:
    x = draw(2, 16, 8, 8)
    with constant_weights():
        for seed in range(4):
            weight = draw(16, 16, 3, 3, seed=seed)  # the last one's memory is free again
            expected = F.conv2d(x, weight, padding=1)
            assert (convolved(x, weight) - expected).norm() < 1e-4 * expected.norm()
            del weight


def test_a_weight_that_changes_in_place_is_packed_again() -> None:
    x, weight = draw(2, 16, 8, 8), draw(16, 16, 3, 3)
    with constant_weights():
        first = convolved(x, weight)
        weight *= 2
        torch.testing.assert_close(convolved(x, weight), 2 * first)
    torch.testing.assert_close(convolved(x, weight), 2 * first)


def test_results_of_a_weight_go_with_it() -> None:
    cache = WeightCache()
    weight = torch.zeros(3)
    cache.get(weight, "some", lambda: torch.zeros(5))
    assert len(cache._results) == 1
    del weight
    gc.collect()
    assert len(cache._results) == 0


def test_nothing_is_kept_for_weights_made_in_inference_mode_which_have_no_version() -> None:
    cache, made = WeightCache(), []
    with torch.inference_mode():
        weight = torch.zeros(3)

    def compute() -> Tensor:
        made.append(1)
        return torch.zeros(5)

    for _ in range(2):
        cache.get(weight, "some", compute)
    assert made == [1, 1]


def count_packing(monkeypatch: pytest.MonkeyPatch) -> list[tuple[torch.Size, bool]]:
    """Weights that were packed, and which way."""
    from tadam.nn.fast import weights

    seen: list[tuple[torch.Size, bool]] = []

    def counting(weight: Tensor, forward: bool = True) -> Any:
        seen.append((weight.shape, forward))
        return pack(weight, forward)

    monkeypatch.setattr(weights, "pack", counting)
    return seen


def test_a_step_of_several_passes_packs_each_weight_once_each_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = count_packing(monkeypatch)
    network = ResNet12(width=16).train()
    passes = [draw(16, 3, 32, 32, seed=s) for s in range(3)]
    with constant_weights():
        for x in passes:
            network(x).sum().backward()
    # 11 of 12 convolutions have enough channels; all of them have an input with a gradient
    assert sorted(f for _, f in seen) == [False] * 11 + [True] * 11
    seen.clear()
    for x in passes:
        network(x).sum().backward()
    assert len(seen) == 3 * 22  # outside of the block nothing is kept


def test_computed_weights_give_the_gradients_of_plain_autograd() -> None:
    """As in MAML: weights that are no parameters, one after the other, in one block."""
    from torch.func import functional_call

    network = ResNet12(width=16).train()
    weights = {name: p.detach().clone() for name, p in network.named_parameters()}
    x = draw(4, 3, 32, 32)
    results = []
    for dtype in (torch.float32, torch.float64):
        factor = torch.ones((), dtype=dtype, requires_grad=True)
        network.to(dtype)
        total = torch.zeros((), dtype=dtype)
        with constant_weights():
            for step in range(3):
                fast = {n: (factor + 0.1 * step) * w.to(dtype) for n, w in weights.items()}
                total = total + functional_call(network, fast, (x.to(dtype),)).square().sum()
            results.append((total.double(), torch.autograd.grad(total, factor)[0].double()))
    torch.testing.assert_close(*results, rtol=1e-3, atol=1e-4)
