"""Conv-4 has the shape of Prototypical Networks: four pooled units, flat or averaged, any size."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tadam.errors import UserError
from tadam.nn.backbones.conv4 import Conv4, Conv4Config
from tadam.nn.conv_unit import ConvUnit


@pytest.mark.parametrize(
    ("size", "side", "channels"), [(16, 1, 3), (21, 1, 1), (32, 2, 3), (84, 5, 1), (256, 16, 3)]
)
def test_flat_embedding_keeps_the_last_map_and_pooled_averages_it(
    size: int, side: int, channels: int
) -> None:
    x = torch.rand(2, channels, size, size, generator=torch.Generator().manual_seed(0))
    flat = Conv4(channels, width=2, embedding="flat", image_size=size).eval()
    pooled = Conv4(channels, width=2, embedding="pooled", image_size=size).eval()
    pooled.load_state_dict(flat.state_dict())
    with torch.no_grad():
        long, short = flat(x).numpy(), pooled(x).numpy()
    assert long.shape == (2, flat.feature_size) == (2, 2 * side * side)
    assert short.shape == (2, pooled.feature_size) == (2, 2)
    np.testing.assert_allclose(short, long.reshape(2, 2, -1).mean(axis=2), rtol=1e-5)


def test_the_literature_has_1600_features_at_84_pixels_and_112832_weights() -> None:
    net = Conv4(width=64, image_size=84)
    assert net.feature_size == 1600
    # 9 * 64 * (3 + 3 * 64) convolution weights and 4 * 2 * 64 of batch norm
    assert sum(p.numel() for p in net.parameters()) == 112_320 + 512


@pytest.mark.parametrize(("size", "side"), [(28, 2), (32, 2), (33, 3)])
def test_strides_take_the_place_of_pools_and_round_up(size: int, side: int) -> None:
    net = Conv4(1, width=2, embedding="flat", image_size=size, strided=True).eval()
    x = torch.rand(2, 1, size, size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found = net(x)
        for unit in net.units:  # a convolution with a stride skips every second output
            assert isinstance(unit, ConvUnit)
            y = F.conv2d(x, unit.conv.weight, padding=1)[:, :, ::2, ::2]
            x = F.relu(unit.norm(y))
    assert net.feature_size == 2 * side * side
    torch.testing.assert_close(found, x.flatten(1))


@pytest.mark.parametrize("pooled_units", [-1, 5])
def test_at_most_four_units_can_pool(pooled_units: int) -> None:
    with pytest.raises(UserError, match=r"backbone\.pooled_units must be between 0 and 4"):
        Conv4Config(pooled_units=pooled_units)


def test_every_unit_can_be_conditioned_and_precedes_a_pool() -> None:
    net = Conv4(width=7)
    assert net.conditioned_widths == (7, 7, 7, 7)
    assert net.pre_pool_layers == (0, 1, 2, 3)


@pytest.mark.parametrize("layer", range(4))
def test_film_acts_before_the_activation(layer: int) -> None:
    net: Any = Conv4(1, width=1, embedding="pooled", activation="relu", image_size=16).eval()
    for unit in net.units:
        nn.init.dirac_(unit.conv.weight)  # each unit passes its input on
    film: list[Any] = [None] * 4
    film[layer] = (torch.tensor([[1.0]]), torch.tensor([[-7.0]]))
    with torch.no_grad():
        untouched = net(torch.full((1, 1, 16, 16), 5.0))
        if layer < 3:
            net.units[layer + 1].conv.weight.neg_()  # lets a negative value through, if any
        silenced = net(torch.full((1, 1, 16, 16), 5.0), film)
    assert untouched.item() == pytest.approx(5.0, rel=3e-3)
    assert silenced.item() == 0.0  # relu(5 - 7); after the activation it would be 2 or -2


def test_swish_may_replace_relu() -> None:
    net: Any = Conv4(1, width=1, embedding="pooled", activation="swish", image_size=16).eval()
    for unit in net.units:
        nn.init.dirac_(unit.conv.weight)
    with torch.no_grad():
        z = net(torch.full((1, 1, 16, 16), -2.0)).item()
    expected = -2.0
    for _ in range(4):
        expected /= (1 + 1e-3) ** 0.5
        expected /= 1 + np.exp(-expected)
    assert z == pytest.approx(expected, rel=1e-4)
