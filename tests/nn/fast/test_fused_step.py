"""The fused training step of a conv unit: the same numbers and gradients as plain autograd."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pairwise import pairwise
from tadam.nn.fast.fused_step import norm_film_swish


def tensor(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def norm(channels: int) -> nn.BatchNorm2d:
    layer = nn.BatchNorm2d(channels, eps=1e-3, momentum=0.05).double().train()
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(0.5, 1.5, channels))
        layer.bias.copy_(torch.linspace(-1, 1, channels))
    return layer


def plain(
    x: Tensor, layer: nn.BatchNorm2d, modulation: Any, shortcut: Any, pool: str | None
) -> Tensor:
    """The same by ordinary operations, each task by itself."""
    y = layer(x)
    if modulation is not None:
        gamma, beta = modulation
        y = torch.cat(
            [
                part * g[:, None, None] + b[:, None, None]
                for part, g, b in zip(y.chunk(len(gamma)), gamma, beta, strict=True)
            ]
        )
    if shortcut is not None:
        y = y + shortcut[1](shortcut[0])
    y = y * torch.sigmoid(y)
    return F.max_pool2d(y, 2, ceil_mode=pool == "up") if pool else y


def arguments(conditioned: bool, residual: bool) -> Any:
    x, modulation, shortcut = tensor(6, 3, 5, 5), None, None
    if conditioned:
        modulation = (tensor(2, 3), tensor(2, 4)[:, :3].detach().requires_grad_())
    if residual:
        shortcut = (tensor(6, 3, 6, 5)[:, :, :5].detach().requires_grad_(), norm(3))
    return x, norm(3), modulation, shortcut


def everything(x: Tensor, layer: nn.BatchNorm2d, modulation: Any, shortcut: Any) -> list[Tensor]:
    """Whatever has a gradient."""
    leaves = [x, layer.weight, layer.bias, *(modulation or ())]
    return leaves + ([shortcut[0], *shortcut[1].parameters()] if shortcut else [])


def outcome(out: Tensor, x: Tensor, layer: nn.BatchNorm2d, modulation: Any, shortcut: Any) -> Any:
    """The output, the gradients of `everything` and the running statistics."""
    weights = torch.arange(out.numel(), dtype=out.dtype).reshape(out.shape).cos()
    gradients = torch.autograd.grad(
        (out * weights).sum(), everything(x, layer, modulation, shortcut)
    )
    norms = [layer, *([shortcut[1]] if shortcut else [])]
    return [out, *gradients, *(b for n in norms for b in n.buffers())]


@pytest.mark.parametrize("conditioned", [False, True])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("pool", [None, "up", "down"])
def test_output_gradients_and_statistics_are_those_of_plain_autograd(
    conditioned: bool, residual: bool, pool: str | None
) -> None:
    for memory_format in (torch.contiguous_format, torch.channels_last):
        results = []
        for function in (norm_film_swish, plain):
            x, layer, modulation, shortcut = arguments(conditioned, residual)
            given = x.contiguous(memory_format=memory_format)
            out = function(given, layer, modulation, shortcut, pool)
            results.append(outcome(out, x, layer, modulation, shortcut))
        for ours, expected in zip(*results, strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9)


def test_images_that_the_tasks_cannot_share_evenly_are_refused() -> None:
    x, layer, modulation, _ = arguments(conditioned=True, residual=False)
    with pytest.raises(ValueError, match="do not fit 5 images"):
        norm_film_swish(x[:5], layer, modulation)


@pytest.mark.parametrize(
    ("conditioned", "residual", "pool"),
    pairwise([False, True], [False, True], [None, "up", "down"]),
)
def test_gradients_agree_with_finite_differences(
    conditioned: bool, residual: bool, pool: str | None
) -> None:
    x, layer, modulation, shortcut = arguments(conditioned, residual)
    layer.momentum = 0.0  # gradcheck calls it many times: the statistics must not move

    def function(*_: Any) -> Tensor:
        return norm_film_swish(x, layer, modulation, shortcut, pool)

    assert torch.autograd.gradcheck(function, everything(x, layer, modulation, shortcut))


def test_only_the_outputs_of_the_convolutions_are_kept_for_the_backward_pass() -> None:
    x, layer, modulation, shortcut = arguments(conditioned=True, residual=True)
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        norm_film_swish(x, layer, modulation, shortcut, pool=None)
    large = {t.data_ptr() for t in kept if t.numel() >= x.numel()}
    assert large == {x.data_ptr(), shortcut[0].data_ptr()}
