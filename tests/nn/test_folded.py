"""The folded network: the same embeddings as the trained one, from plain convolutions."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tadam import native
from tadam.nn.backbone import Backbone
from tadam.nn.backbones.conv4 import Conv4
from tadam.nn.backbones.pixels import RawPixels
from tadam.nn.backbones.resnet12 import ResNet12


def trained(backbone: Backbone) -> Backbone:
    """As if trained: statistics, scales and shifts that differ from channel to channel."""
    generator = torch.Generator().manual_seed(0)
    for name, value in [*backbone.named_parameters(), *backbone.named_buffers()]:
        if "norm" in name and value.dtype.is_floating_point:
            value.data = 0.5 + torch.rand(value.shape, generator=generator)
    return backbone.eval()


def film_of(backbone: Backbone, tasks: int = 1) -> Any:
    generator = torch.Generator().manual_seed(1)
    return [
        (
            1 + 0.3 * torch.randn(tasks, w, generator=generator),
            torch.randn(tasks, w, generator=generator),
        )
        for w in backbone.conditioned_widths
    ]


def mirrored(backbone: Backbone) -> Backbone:
    backbone.mirrored = True
    return backbone


BACKBONES: dict[str, Callable[[], Backbone]] = {
    "resnet12": lambda: ResNet12(width=16),
    "resnet12-relu": lambda: ResNet12(width=5, pools=4, activation="relu"),
    "conv4": lambda: Conv4(width=16, image_size=35),
    "conv4-two-pools": lambda: Conv4(width=16, image_size=35, pooled_units=2),
    "conv4-strided": lambda: Conv4(width=16, image_size=35, strided=True),
    "conv4-pooled": lambda: Conv4(in_channels=3, width=16, embedding="pooled", activation="swish"),
    "resnet12-mirrored": lambda: mirrored(ResNet12(width=16)),
    "conv4-mirrored": lambda: mirrored(Conv4(width=16, image_size=35)),
    "resnet12-projected": lambda: mirrored(ResNet12(width=4, projection=2)),
}


@pytest.mark.parametrize(
    ("name", "conditioned"),
    [
        ("resnet12", False),
        ("resnet12", True),
        ("resnet12-relu", True),
        ("conv4", False),
        ("conv4", True),
        ("conv4-two-pools", True),
        ("conv4-strided", True),
        ("conv4-pooled", True),
        ("resnet12-mirrored", True),
        ("conv4-mirrored", False),
        ("resnet12-projected", True),
    ],
)
def test_it_embeds_as_the_trained_network_does(name: str, conditioned: bool) -> None:
    torch.manual_seed(0)
    backbone = trained(BACKBONES[name]())
    film = film_of(backbone) if conditioned else None
    folded = backbone.folded(film)
    x = torch.randn(4, 3, 35, 35).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        expected = copy.deepcopy(backbone).double()(
            x.double(), film and [(g.double(), b.double()) for g, b in film]
        )
        for network in (folded, copy.deepcopy(folded)):
            for _ in range(2):  # the second time with weights packed before
                torch.testing.assert_close(network(x).double(), expected, rtol=1e-4, atol=1e-4)
    # with gradients asked for, the native core stays out of it
    torch.testing.assert_close(folded(x).double(), expected, rtol=1e-4, atol=1e-4)


def test_only_convolutions_with_bias_are_left() -> None:
    folded = trained(ResNet12(width=4)).folded()
    kinds = {type(m).__name__ for m in folded.modules() if not list(m.children())}
    assert kinds == {"FoldedConv"}
    assert not list(folded.parameters())  # nothing to train


@pytest.mark.skipif(not native.available(), reason="the native core was not built")
def test_weights_that_were_exchanged_are_packed_again() -> None:
    torch.manual_seed(0)
    folded: Any = trained(ResNet12(width=16)).folded()
    x = torch.randn(4, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        before = folded(x)
        conv = folded.stages[0].units[1].conv
        conv.weight = torch.nn.Parameter(-conv.weight, requires_grad=False)
        assert (folded(x) - before).abs().max() > 1e-3  # with the old ones they would be the same


@pytest.mark.skipif(not native.available(), reason="the native core was not built")
def test_weights_that_were_loaded_after_a_prediction_are_packed_again() -> None:
    folded, other = (trained(ResNet12(width=16)).folded() for _ in range(2))
    x = torch.randn(4, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        assert (folded(x) - other(x)).abs().max() > 1e-2
        folded.load_state_dict(other.state_dict())
        torch.testing.assert_close(folded(x), other(x))


def test_one_task_at_a_time() -> None:
    backbone = ResNet12(width=4)
    with pytest.raises(ValueError, match="one task, not for 2"):
        backbone.folded(film_of(backbone, tasks=2))


def test_a_backbone_that_cannot_be_folded_serves_as_it_is() -> None:
    pixels = RawPixels(3, 32)
    x = torch.rand(2, 3, 32, 32)
    assert torch.equal(pixels.folded()(x), pixels.embed(x))
    both = (pixels.embed(x) + pixels.embed(x.flip(-1))) / 2
    assert torch.equal(mirrored(pixels).eval().folded()(x), both)
