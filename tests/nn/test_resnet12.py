"""ResNet-12 has the paper's shape: widths, pools, an unconditioned shortcut, and any image size."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tadam.nn.backbones.resnet12 import ResNet12
from tadam.nn.conv_unit import ConvNorm, initialise_convolutions
from tadam.nn.fast import residual_block


def block_sides(net: ResNet12, size: int, channels: int = 3) -> list[int]:
    """Side of the feature map behind each block."""
    sides: list[int] = []
    hooks = [b.register_forward_hook(lambda *a: sides.append(a[2].shape[-1])) for b in net.blocks]
    with torch.no_grad():
        z = net.eval()(torch.zeros(1, channels, size, size))
    for hook in hooks:
        hook.remove()
    assert z.shape == (1, net.feature_size)
    return sides


@pytest.mark.parametrize(
    ("size", "sides", "channels"),
    [
        (16, [8, 4, 2, 2], 1),
        (21, [11, 6, 3, 3], 3),
        (84, [42, 21, 11, 11], 1),
        (256, [128, 64, 32, 32], 3),
    ],
)
def test_three_pools_halve_and_round_up(size: int, sides: list[int], channels: int) -> None:
    assert block_sides(ResNet12(channels, width=1), size, channels) == sides


@pytest.mark.parametrize(
    ("pools", "sides"),
    [(0, [84] * 4), (1, [42] * 4), (2, [42, 21, 21, 21]), (4, [42, 21, 11, 6])],
)
def test_pools_count_from_the_first_block(pools: int, sides: list[int]) -> None:
    assert block_sides(ResNet12(width=1, pools=pools), 84) == sides


def test_an_odd_last_row_and_column_reach_the_embedding() -> None:
    net = ResNet12(width=1, pools=4).eval()
    x = torch.zeros(2, 3, 17, 17)
    x[1, :, 16, 16] = 1.0
    with torch.no_grad():
        z = net(x)
    assert not torch.equal(z[0], z[1])


def test_widths_double_and_sixteen_convolutions_have_no_bias() -> None:
    net = ResNet12(width=64)
    assert net.feature_size == 512
    assert net.conditioned_widths == (64,) * 3 + (128,) * 3 + (256,) * 3 + (512,) * 3
    assert net.pre_pool_layers == (2, 5, 8, 11)  # the paper's 3, 6, 9, 12
    convolutions = [m for m in net.modules() if isinstance(m, nn.Conv2d)]
    assert sum(c.kernel_size == (3, 3) for c in convolutions) == 12
    assert sum(c.kernel_size == (1, 1) for c in convolutions) == 4
    assert all(c.bias is None for c in convolutions)
    # 9 (C_in C + 2 C^2) + C_in C weights and 4 norms of 2 C per block
    by_hand = sum(
        10 * i * c + 18 * c * c + 8 * c for i, c in [(3, 64), (64, 128), (128, 256), (256, 512)]
    )
    assert sum(p.numel() for p in net.parameters()) == by_hand == 7_996_800


def test_batch_norm_has_the_authors_epsilon_and_momentum() -> None:
    norms = [m for m in ResNet12(width=1).modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == 16
    assert {(n.eps, n.momentum) for n in norms} == {(1e-3, 0.05)}


def test_film_acts_before_the_sum_and_leaves_the_shortcut_alone() -> None:
    block: Any = residual_block(2, 3, pool=False, activation="swish").eval()
    x = torch.randn(2, 2, 5, 5, generator=torch.Generator().manual_seed(0))
    # a scale of 0 silences the main path, so that swish(shift + shortcut) is left
    zero, shift = torch.zeros(2, 3), torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, -1.0]])
    with torch.no_grad():
        y = block(x, [None, None, (zero, shift)]).numpy()
    kernel = block.shortcut.conv.weight.detach().numpy()[:, :, 0, 0]
    shortcut = np.einsum("nchw,oc->nohw", x.numpy(), kernel) / np.sqrt(1 + 1e-3)
    before = shift.numpy()[:, :, None, None] + shortcut
    np.testing.assert_allclose(y, before / (1 + np.exp(-before)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("unit", [0, 1])
def test_film_of_the_inner_units_acts_before_their_activation(unit: int) -> None:
    block: Any = residual_block(1, 1, pool=False, activation="relu").eval()
    for layer in block.units:
        nn.init.dirac_(layer.conv.weight)  # each unit passes its input on ...
    block.units[1].conv.weight.data.neg_()  # ... but the second turns the sign
    nn.init.zeros_(block.shortcut.conv.weight)
    modulations: list[Any] = [None, None, None]
    modulations[unit] = (torch.tensor([[1.0]]), torch.tensor([[-7.0]]))
    modulations[2] = (torch.tensor([[1.0]]), torch.tensor([[3.0]]))
    with torch.no_grad():
        y = block(torch.full((1, 1, 3, 3), 5.0), modulations)
    # relu cuts what is below zero, so that 3 is left; after it, -7 would get through
    np.testing.assert_allclose(y, 3.0)


def test_the_sum_with_the_shortcut_is_activated_and_then_pooled() -> None:
    block: Any = residual_block(1, 1, pool=True, activation="swish").eval()
    for layer in block.units:
        nn.init.zeros_(layer.conv.weight)
    nn.init.ones_(block.shortcut.conv.weight)
    x = torch.tensor([[[[-9.0, 1.0, 2.0], [0.0, -1.0, -2.0], [-6.0, -1.25, -3.0]]]])
    with torch.no_grad():
        y = block(x)[0, 0]
    swished = x[0, 0].double() / (1 + 1e-3) ** 0.5
    swished = (swished / (1 + (-swished).exp())).numpy()
    # swish is not monotonic: of -6 and -1.25 it is the smaller that wins
    expected = [[swished[0, 1], swished[0, 2]], [swished[2, 0], swished[2, 2]]]
    np.testing.assert_allclose(y, expected, rtol=1e-5)


@pytest.mark.parametrize(("scheme", "gain"), [("paper", 0.2), ("he", 2.0)])
def test_initial_variance_is_the_gain_over_the_fan_out(scheme: str, gain: float) -> None:
    for kernel_size in (1, 3):
        unit = ConvNorm(150, 200, kernel_size)
        initialise_convolutions(unit, scheme, torch.Generator().manual_seed(0))
        weight = unit.conv.weight.detach().numpy()
        assert weight.var() == pytest.approx(gain / (kernel_size**2 * 200), rel=0.03)
        assert abs(weight.mean()) < 4 * weight.std() / weight.size**0.5
