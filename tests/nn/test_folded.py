"""The folded network gives what the backbone gives in evaluation mode."""

import pytest
import torch
from torch import nn

from tadam.nn.conv_unit import initialise_convolutions
from tadam.nn.folded import fold
from tadam.nn.resnet12 import ResNet12


@pytest.mark.parametrize("conditioned", [False, True])
def test_folding_changes_nothing(conditioned: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    network = ResNet12(width=4).eval()
    initialise_convolutions(network, "he", generator)
    with torch.no_grad():
        for norm in (m for m in network.modules() if isinstance(m, nn.BatchNorm2d)):
            for vector in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
                vector.uniform_(0.5, 1.5, generator=generator)  # type: ignore[union-attr]
    film = None
    if conditioned:
        film = [
            tuple(0.5 + torch.rand(2, 1, width, generator=generator))
            for width in network.conditioned_widths
        ]
    images = torch.randn(3, 3, 17, 17, generator=generator)
    images = images.contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        expected = network(images, film)
        actual = fold(network, film)(images)
    scale = expected.abs().max()
    torch.testing.assert_close(actual / scale, expected / scale, rtol=0, atol=1e-4)
