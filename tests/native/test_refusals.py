"""What the native core leaves to PyTorch, and what it answers as PyTorch does."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from pairwise import pairwise
from tadam import native
from tadam.native.norm import Finish, Scaled, norm
from tadam.nn.backbone import Backbone
from tadam.nn.backbones.conv4 import Conv4
from tadam.nn.backbones.resnet12 import ResNet12
from tadam.nn.conv_unit import initialise_convolutions

pytestmark = pytest.mark.skipif(not native.available(), reason="the native core was not built")


@pytest.fixture(params=["train", "eval"])
def network(request: pytest.FixtureRequest) -> Backbone:
    torch.manual_seed(0)
    found = ResNet12(width=16)
    initialise_convolutions(found, "he")
    return found.train(request.param == "train")


def images(count: int) -> Tensor:
    x = torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    return x.contiguous(memory_format=torch.channels_last)


def film_of(network: Backbone, tasks: int, **kind: Any) -> Any:
    return [
        (torch.ones(tasks, w, **kind), torch.zeros(tasks, w)) for w in network.conditioned_widths
    ]


def test_mixed_precision_is_pytorchs(network: Backbone) -> None:
    x = images(4)
    with torch.set_grad_enabled(network.training):
        expected = network(x)
        with torch.autocast("cpu", torch.bfloat16):
            found = network(x)
    difference = (found.float() - expected).norm() / expected.norm()
    assert 0 < difference < 0.1


@pytest.mark.parametrize("count", [1, 5])
def test_tasks_that_do_not_divide_the_images_are_an_error(network: Backbone, count: int) -> None:
    with torch.set_grad_enabled(network.training), pytest.raises(ValueError, match=f"{count} imag"):
        network(images(count), film_of(network, 2))


@pytest.mark.parametrize("width", [1, 17])  # the one would broadcast
def test_film_of_another_width_is_an_error(network: Backbone, width: int) -> None:
    film = [(torch.ones(1, width), torch.zeros(1, width)), *film_of(network, 1)[1:]]
    with torch.set_grad_enabled(network.training), pytest.raises(ValueError, match="16 channels"):
        network(images(2), film)


def test_film_of_another_precision_is_pytorchs(
    network: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = film_of(network, 1, dtype=torch.float64)

    def outcome() -> Any:
        try:
            return copy.deepcopy(network)(images(2), film)
        except RuntimeError as error:
            return str(error)

    with torch.set_grad_enabled(network.training):
        found = outcome()
        monkeypatch.setattr(native, "available", lambda: False)
        expected = outcome()
    if network.training:  # PyTorch takes it in training and refuses it otherwise
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    else:
        assert found == expected


@pytest.mark.parametrize("core", ["native", "plain"])
def test_a_second_derivative_is_an_error_and_no_number(
    core: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "available", lambda: core == "native")
    network = ResNet12(width=16).train()
    loss, weights = network(images(2)).square().sum(), list(network.parameters())
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(loss, weights, create_graph=True)


@pytest.mark.parametrize(
    ("broken", "activation", "training"), pairwise(range(4), ["relu", "swish"], [True, False])
)
def test_what_is_no_number_stays_none(broken: int, activation: str, training: bool) -> None:
    network: Any = Conv4(3, 16, image_size=32, activation=activation).train(training)
    initialise_convolutions(network, "he")
    with torch.no_grad():
        network.units[broken].conv.weight[3, 2, 1, 1] = float("nan")
        assert network(images(2)).isnan().any()


def test_the_largest_of_a_window_is_no_number_wherever_that_lies() -> None:
    for place in ((8, 8), (9, 8), (8, 9), (9, 9)):
        side = torch.zeros(2, 16, 32, 32).contiguous(memory_format=torch.channels_last)
        side[:, :, *place] = float("nan")
        ones = torch.ones(16)
        main = Scaled(torch.zeros_like(side), torch.ones(1, 16), torch.zeros(1, 16))
        y = norm(main, Scaled(side, ones, 0 * ones), Finish("swish", "down"))
        assert y[:, :, 4, 4].isnan().all()
        assert y.isnan().sum() == 2 * 16
