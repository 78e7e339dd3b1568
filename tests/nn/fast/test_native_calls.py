"""Networks really call the kernels where they can, and no kernel where they cannot."""

import collections
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tadam import native
from tadam.native import library
from tadam.nn.backbone import Backbone
from tadam.nn.backbones.conv4 import Conv4
from tadam.nn.backbones.resnet12 import ResNet12
from tadam.nn.fast import plain_autograd

pytestmark = pytest.mark.skipif(not native.available(), reason="the native core was not built")

#: Width 16 on 16 images of 3x32x32: every convolution but the first has channels and tiles enough,
#: so that the first is PyTorch's own with the moments and the gradient's sum from the kernels.
NETWORKS: dict[str, Callable[[], Backbone]] = {
    "resnet12": lambda: ResNet12(width=16),
    "conv4": lambda: Conv4(width=16, activation="relu"),
}
TRAINING = {
    "resnet12": {
        "conv": 11,
        "conv_backward": 11,
        "affine": 12 + 4,  # the shortcuts' too
        "affine_backward": 12 + 4,
        "moments": 1 + 4,
        "combine": 1 + 4,
        "pooled_norm": 3,
        "pooled_norm_backward": 3,
        "norm": 1,  # the last block has no pool
        "norm_backward": 1,
    },
    "conv4": {
        "conv": 3,
        "conv_backward": 3,
        "affine": 4,
        "affine_backward": 4,
        "moments": 1,
        "combine": 1,
        "pooled_norm": 4,
        "pooled_norm_backward": 4,
    },
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> collections.Counter[str]:
    """Kernels by how often they were called; sizes and packing left out."""
    call = library.call
    seen: collections.Counter[str] = collections.Counter()

    def counting(name: str, **arguments: Any) -> Any:
        if not name.endswith("_scratch") and not name.startswith("pack"):
            seen[name] += 1
        return call(name, **arguments)

    monkeypatch.setattr(library, "call", counting)
    return seen


def images() -> Tensor:
    x = torch.randn(16, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    return x.contiguous(memory_format=torch.channels_last)


def film_of(network: Backbone) -> Any:
    return [(torch.ones(2, w), torch.zeros(2, w)) for w in network.conditioned_widths]


@pytest.mark.parametrize("conditioned", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_training_step_runs_on_the_kernels(
    name: str, conditioned: bool, calls: collections.Counter[str]
) -> None:
    network = NETWORKS[name]().train()
    network(images(), film_of(network) if conditioned else None).sum().backward()
    assert calls == TRAINING[name]


@pytest.mark.parametrize("conditioned", [False, True])
@pytest.mark.parametrize(("name", "convolutions"), [("resnet12", 11), ("conv4", 3)])
def test_inference_runs_on_the_kernels(
    name: str, convolutions: int, conditioned: bool, calls: collections.Counter[str]
) -> None:
    network = NETWORKS[name]().eval()
    with torch.no_grad():
        network(images(), film_of(network) if conditioned else None)
    # a unit is one call; the first, whose convolution is PyTorch's, is a norm
    first = "pooled_norm" if name == "conv4" else "norm"
    assert calls == {"conv": convolutions, first: 1}


@pytest.mark.parametrize(("name", "convolutions"), [("resnet12", 11), ("conv4", 3)])
def test_folded_inference_runs_on_the_kernels(
    name: str, convolutions: int, calls: collections.Counter[str]
) -> None:
    folded = NETWORKS[name]().eval().folded()
    with torch.no_grad():
        folded(images())
    assert calls == {"conv": convolutions}


@pytest.mark.parametrize("name", NETWORKS)
def test_no_kernel_is_called_for_other_inputs_or_where_plain_operations_are_wanted(
    name: str, calls: collections.Counter[str]
) -> None:
    network = NETWORKS[name]().train()
    network.double()(images().double()).sum().backward()
    network.float()
    with torch.autocast("cpu", torch.bfloat16):
        network(images())
    with plain_autograd():
        network(images()).sum().backward()
    network.eval()
    network(images()).sum().backward()  # the kernels' inference has no gradients
    network.folded()(images())
    with plain_autograd(), torch.no_grad():
        network(images())
        network.folded()(images())
    torch.export.export(network, (images(),))
    assert not calls
