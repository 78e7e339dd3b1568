"""`plain_autograd` on every backbone: second derivatives, and weights that are no parameters.

The second derivative along a direction is compared with a finite difference of gradients, which
are themselves taken in the block in float64.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from tadam.nn.backbone import Backbone
from tadam.nn.backbones.conv4 import Conv4
from tadam.nn.backbones.efficientnet_lite import EfficientNetLite0, FrozenConv
from tadam.nn.backbones.pixels import RawPixels
from tadam.nn.backbones.resnet12 import ResNet12
from tadam.nn.conv_unit import initialise_convolutions
from tadam.nn.fast import plain_autograd
from tadam.nn.ten import TaskEmbeddingNetwork

Weights = Mapping[str, Tensor]
Loss = Callable[[Weights], Tensor]

NETWORKS: dict[str, Callable[[], Backbone]] = {
    # smooth: a finite difference across relu's corners would be wrong
    "resnet12": lambda: ResNet12(width=16, image_size=16),
    "conv4": lambda: Conv4(width=16, activation="swish", image_size=16),
}


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def images(count: int, size: int = 16) -> Tensor:
    return draw(count, 3, size, size).contiguous(memory_format=torch.channels_last)


def network_of(name: str) -> Backbone:
    network = NETWORKS[name]().train()
    initialise_convolutions(network, "he", torch.Generator().manual_seed(0))
    return network


def along(loss: Loss, point: Weights, create_graph: bool) -> tuple[Tensor, ...]:
    """The gradient of a loss at a point, a dict of tensors."""
    return torch.autograd.grad(loss(point), list(point.values()), create_graph=create_graph)


def check_second_derivative(loss: Loss, start: Weights) -> None:
    """Hessian times direction, exactly and by a central difference of gradients."""
    direction = {name: draw(*value.shape, seed=7).to(value) for name, value in start.items()}
    point = {name: value.detach().requires_grad_() for name, value in start.items()}
    pairs = zip(along(loss, point, True), direction.values(), strict=True)
    slope = torch.stack([(g * d).sum() for g, d in pairs]).sum()
    exact = torch.autograd.grad(slope, list(point.values()), allow_unused=True)
    step, sides = 1e-5, []
    for sign in (1, -1):
        moved = {
            name: (value + sign * step * direction[name]).detach().requires_grad_()
            for name, value in start.items()
        }
        sides.append(along(loss, moved, False))
    for ours, above, below in zip(exact, *sides, strict=True):
        difference = (above - below) / (2 * step)
        assert difference.norm() > 0
        assert (ours - difference).norm() <= 1e-4 * difference.norm()


@pytest.mark.parametrize("name", NETWORKS)
def test_second_derivatives_in_the_weights_agree_with_finite_differences(name: str) -> None:
    network, x = network_of(name).double(), images(4).double()
    names = [name for name, _ in network.named_parameters()]
    chosen = {names[0], names[1], names[2], names[-3]}  # convolutions and a norm
    weights = {name: p for name, p in network.named_parameters() if name in chosen}

    def loss(point: Weights) -> Tensor:
        z: Tensor = functional_call(network, dict(point), (x,))
        return z.square().sum()

    with plain_autograd():
        check_second_derivative(loss, weights)


@pytest.mark.parametrize("name", NETWORKS)
def test_in_float32_they_agree_with_float64(name: str) -> None:
    """Float32, channels last: what would go to the kernels if the block did not stop it."""
    results = []
    for dtype in (torch.float32, torch.float64):
        network, x = network_of(name).to(dtype), images(16).to(dtype)
        weights = list(network.parameters())
        with plain_autograd():
            z = network(x)
        gradients = torch.autograd.grad(z.square().mean(), weights, create_graph=True)
        penalty = torch.stack([g.square().sum() for g in gradients]).sum()
        results.append([g.double() for g in torch.autograd.grad(penalty, weights)])
    for ours, expected in zip(*results, strict=True):
        assert (ours - expected).norm() <= 1e-2 * expected.norm() + 1e-6


def test_second_derivatives_through_the_film_of_efficientnet() -> None:
    backbone = EfficientNetLite0(image_size=32, head=False)  # it would add kinks
    for layer in backbone.modules():  # its own weights may not be installed
        if isinstance(layer, FrozenConv):
            layer.weight.copy_(draw(*layer.weight.shape, seed=1) / layer.weight[0].numel() ** 0.5)
            layer.bias.fill_(0.1)
    backbone.double().eval()
    x = images(2, 32).double()
    film = {
        f"{kind}{i}": start + 0.1 * draw(2, w, seed=i).double()
        for i, w in enumerate(backbone.conditioned_widths)
        for kind, start in (("gamma", 1.0), ("beta", 0.0))
    }

    def loss(point: Weights) -> Tensor:
        pairs = [(point[f"gamma{i}"], point[f"beta{i}"]) for i in range(2)]
        return F.softplus(backbone(x, pairs)).square().sum()

    with plain_autograd():
        check_second_derivative(loss, film)


def test_second_derivatives_through_a_task_embedding_network_and_raw_pixels() -> None:
    backbone, task = RawPixels(3, 4), images(2, 4).double()
    ten: Any = TaskEmbeddingNetwork(backbone.feature_size, (3,), (0,)).double()
    nn.init.constant_(ten.conditioners["0"].gamma0, 0.5)
    nn.init.constant_(ten.conditioners["0"].beta0, 0.5)
    weights = dict(ten.named_parameters())

    def loss(point: Weights) -> Tensor:
        ((gamma, beta),) = functional_call(ten, dict(point), (backbone(task),))
        product: Tensor = gamma * beta
        return product.square().sum()

    with plain_autograd():
        check_second_derivative(loss, weights)


@pytest.mark.parametrize("training", [True, False])
def test_each_task_may_have_weights_of_its_own(training: bool) -> None:
    """`vmap` over stacked weights and running statistics: as one task after the other."""
    network = network_of("conv4").train(training)
    x = torch.stack([images(4), 2 * images(4)])
    state = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    stacked = {
        name: torch.stack([value.detach(), 1.1 * value.detach()])
        if value.is_floating_point()
        else torch.stack([value, value])
        for name, value in state.items()
    }
    singles = [{name: value[i].clone() for name, value in stacked.items()} for i in range(2)]
    with plain_autograd():
        together = vmap(lambda weights, some: functional_call(network, weights, (some,)))(
            stacked, x
        )
        apart = [
            functional_call(network, own, (some,)) for own, some in zip(singles, x, strict=True)
        ]
    torch.testing.assert_close(together, torch.stack(apart), rtol=1e-4, atol=1e-4)
    if training:  # the running statistics moved, each task's by itself
        name = "units.0.norm.running_mean"
        torch.testing.assert_close(stacked[name], torch.stack([own[name] for own in singles]))
        assert not torch.equal(stacked[name][0], stacked[name][1])


def test_vmap_works_without_the_block_as_well() -> None:
    network, x = network_of("conv4").eval(), images(4)
    stacked = {n: torch.stack([p.detach()] * 2) for n, p in network.named_parameters()}
    together = vmap(lambda weights: functional_call(network, weights, (x,)))(stacked)
    torch.testing.assert_close(together[1], network(x), rtol=1e-4, atol=1e-4)


def test_outside_of_the_block_second_derivatives_are_refused_and_the_message_names_it() -> None:
    network = network_of("resnet12")
    loss = network(images(16)).square().sum()
    with pytest.raises(RuntimeError, match="plain_autograd"):
        torch.autograd.grad(loss, list(network.parameters()), create_graph=True)
