"""A conv unit on the native core: the same numbers and gradients as plain PyTorch in float64."""

import copy
import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pairwise import pairwise
from tadam import native
from tadam.nn.backbones.resnet12 import ResNet12
from tadam.nn.conv_unit import ConvUnit
from tadam.nn.fast import conv_unit, plain_autograd, residual_block

pytestmark = pytest.mark.skipif(
    not native.available(), reason="the native core was not built: no C++ compiler here"
)
#: channels, filters, size; activation
SHAPES = list(itertools.product([(16, 16, 8), (3, 8, 7), (20, 35, 9)], ["swish", "relu"]))
CASES = list(itertools.product((False, True), (False, True), (None, "up", "down")))


def tensor(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(*shape, generator=generator)
    return values.contiguous(memory_format=torch.channels_last) if len(shape) == 4 else values


def make_unit(channels: int, filters: int, activation: str) -> tuple[ConvUnit, nn.BatchNorm2d]:
    torch.manual_seed(0)
    unit, side_norm = conv_unit(channels, filters, activation), nn.BatchNorm2d(filters)
    for norm in (unit.norm, side_norm):
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.normal_(norm.bias)
        assert norm.running_mean is not None
        assert norm.running_var is not None
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
    return unit, side_norm


def arguments(
    channels: int, filters: int, size: int, conditioned: bool, residual: bool, dtype: torch.dtype
) -> Any:
    def leaf(*shape: int, seed: int) -> Tensor:
        return tensor(*shape, seed=seed).to(dtype).requires_grad_()

    x = leaf(6, channels, size, size + 1, seed=1)
    modulation = tuple(leaf(2, filters, seed=s) for s in (2, 3)) if conditioned else None
    side = leaf(6, filters, size, size + 1, seed=4) if residual else None
    return x, modulation, side


def run(unit: ConvUnit, side_norm: nn.BatchNorm2d, given: Any, pool: str | None) -> list[Tensor]:
    """Output, gradients of all that has one, and the norms' statistics."""
    x, modulation, side = given
    shortcut = (side, side_norm) if side is not None else None
    out = unit(x, modulation, shortcut, pool)
    weights = torch.arange(out.numel(), dtype=torch.float64).reshape(out.shape).cos().to(out.dtype)
    leaves = [x, *(modulation or ()), *unit.parameters()]
    if side is not None:
        leaves += [side, *side_norm.parameters()]
    grads = torch.autograd.grad((out * weights).sum(), leaves)
    return [out, *grads, *unit.buffers(), *side_norm.buffers()]


@pytest.mark.parametrize(("conditioned", "residual", "pool"), CASES)
def test_training_agrees_with_float64(conditioned: bool, residual: bool, pool: str | None) -> None:
    for (channels, filters, size), activation in SHAPES:
        unit, side_norm = make_unit(channels, filters, activation)
        other, other_norm = copy.deepcopy(unit).double(), copy.deepcopy(side_norm).double()
        sizes = (channels, filters, size, conditioned, residual)
        ours = run(unit, side_norm, arguments(*sizes, torch.float32), pool)
        expected = run(other, other_norm, arguments(*sizes, torch.float64), pool)
        for a, b in zip(ours, expected, strict=True):
            torch.testing.assert_close(a.double(), b.double(), rtol=3e-4, atol=3e-4)


@pytest.mark.parametrize(("conditioned", "residual", "pool"), CASES)
def test_inference_agrees_with_float64(conditioned: bool, residual: bool, pool: str | None) -> None:
    for (channels, filters, _), activation in SHAPES:
        unit, side_norm = make_unit(channels, filters, activation)
        unit.eval()
        side_norm.eval()
        outs = []
        for dtype in (torch.float32, torch.float64):
            x, modulation, side = arguments(channels, filters, 9, conditioned, residual, dtype)
            shortcut = (side, side_norm.to(dtype)) if residual else None
            with torch.no_grad():
                outs.append(unit.to(dtype)(x, modulation, shortcut, pool))
        torch.testing.assert_close(outs[0].double(), outs[1], rtol=1e-4, atol=1e-4)


def test_a_unit_in_inference_still_gives_gradients_where_they_are_asked_for() -> None:
    unit, _ = make_unit(16, 16, "swish")
    unit.eval()
    x = tensor(2, 16, 16, 16).requires_grad_()
    unit(x).sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0


def test_only_the_input_and_the_convolutions_output_are_kept_for_the_backward_pass() -> None:
    unit, side_norm = make_unit(16, 16, "swish")
    x, modulation, side = arguments(16, 16, 8, True, True, torch.float32)
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        unit(x, modulation, (side, side_norm), "up")
    large = {t.data_ptr() for t in kept if t.numel() >= x.numel()}
    assert len(large) == 3  # the input, the convolution's output and the shortcut
    assert {x.data_ptr(), side.data_ptr()} < large


@pytest.mark.parametrize(
    ("shape", "conditioned", "activation"),
    pairwise([(16, 16), (3, 24), (20, 35), (3, 8)], [False, True], ["swish", "relu"]),
)
def test_a_block_in_one_step_agrees_with_float64(
    shape: tuple[int, int], conditioned: bool, activation: str
) -> None:
    channels, filters = shape
    torch.manual_seed(0)
    block = residual_block(channels, filters, True, activation)
    results = []
    for dtype in (torch.float32, torch.float64):
        own = copy.deepcopy(block).to(dtype)
        x = tensor(6, channels, 9, 10, seed=1).to(dtype).requires_grad_()
        film = [
            tuple(tensor(2, filters, seed=s + i).to(dtype).requires_grad_() for s in (10, 20))
            for i in range(3)
        ]
        out = own(x, film if conditioned else None)
        weights = torch.arange(out.numel(), dtype=dtype).reshape(out.shape).cos()
        leaves = [x, *own.parameters()]
        leaves += [leaf for pair in film for leaf in pair] if conditioned else []
        results.append([out, *torch.autograd.grad((out * weights).sum(), leaves), *own.buffers()])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a.double(), b.double(), rtol=5e-4, atol=5e-4)


def test_a_block_keeps_no_activation_between_its_units() -> None:
    block = residual_block(16, 16, True, "swish")
    x = tensor(2, 16, 8, 8).requires_grad_()
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        block(x)
    large = {t.data_ptr() for t in kept if t.numel() == x.numel() and t.shape == x.shape}
    assert len(large) == 5  # the input, three convolutions' outputs and the shortcut's


def _changed_norms(network: ResNet12, how: str) -> None:
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            if how == "frozen":
                module.eval()
            elif how == "without running statistics":
                module.running_mean = module.running_var = module.num_batches_tracked = None
                module.track_running_stats = False
            else:
                module.momentum = None  # a cumulative average


@pytest.mark.parametrize("how", ["frozen", "without running statistics", "cumulative"])
@pytest.mark.parametrize("training", [True, False])
def test_a_norm_that_the_kernels_do_not_know_is_computed_plainly(how: str, training: bool) -> None:
    torch.manual_seed(0)
    ours = ResNet12(width=16, image_size=16).train(training)
    _changed_norms(ours, how)
    theirs = copy.deepcopy(ours)
    x = torch.randn(8, 3, 16, 16).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        found = ours(x)
        with plain_autograd():
            expected = theirs(x)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    for mine, other in zip(ours.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-4)
