"""The native core makes photos ready as PyTorch does, and as exported models do."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from tadam import native
from tadam.native import photo
from tadam.nn.preprocess import Preprocess
from tadam.nn.square import triangle_filter

pytestmark = pytest.mark.skipif(not native.available(), reason="the native core was not built")

SIZES = [(48, 64), (64, 40), (41, 64), (17, 16), (16, 17), (8, 5), (3, 1), (1, 1), (16, 16)]


def pixels(height: int, width: int, seed: int = 0, channels: int = 3) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


def preprocess(channels: int = 3) -> Preprocess:
    return Preprocess(16, [123.0, 117.0, 104.0][:channels], [58.0, 57.0, 56.0][:channels])


@pytest.mark.parametrize("planes", [True, False])
@pytest.mark.parametrize(("height", "width"), SIZES)
def test_it_is_the_filter_that_is_exported(height: int, width: int, planes: bool) -> None:
    module, side = preprocess(), min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    photos = [pixels(height, width, seed) for seed in (0, 1)]
    weights = triangle_filter(side, 16).double().numpy()
    found = module.photos(photos, planes)
    for one, x in zip(photos, found, strict=True):
        middle = one[top : top + side, left : left + side].astype(np.float64)
        expected = np.einsum("ip,jq,pqc->cij", weights, weights, middle)
        mean, std = module.pixel_mean.double().numpy(), module.pixel_std.double().numpy()
        np.testing.assert_allclose(x.numpy(), (expected - mean) / std, atol=1e-5)
    whole = module(torch.from_numpy(np.stack(photos)).permute(0, 3, 1, 2))
    torch.testing.assert_close(found, whole, atol=2e-4, rtol=0)  # PyTorch's weights are rounded


@pytest.mark.parametrize("planes", [True, False])
def test_channels_lie_as_asked(planes: bool) -> None:
    x = preprocess().photos([pixels(30, 40)], planes)
    layout = torch.contiguous_format if planes else torch.channels_last
    assert x.is_contiguous(memory_format=layout)


def test_photos_from_a_camera_are_the_kernels_and_nothing_else_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    kernel = photo.prepare

    def counted(photos: Sequence[npt.NDArray[np.uint8]], *more: Any) -> torch.Tensor:
        calls.append(len(photos))
        return kernel(photos, *more)

    monkeypatch.setattr(photo, "prepare", counted)
    lying = pixels(40, 30).transpose(1, 0, 2)  # not one row after the other
    others = [
        (preprocess(), pixels(16, 16)),
        (preprocess(1), pixels(30, 40, channels=1)),
        (preprocess().double(), pixels(30, 40)),
        (preprocess(), lying),
    ]
    for module, other in others:
        assert module.photos([other], True).shape == (1, module.channels, 16, 16)
    assert calls == []
    expected = preprocess().photos([np.ascontiguousarray(lying)], True)
    assert calls == [1]
    torch.testing.assert_close(preprocess().photos([lying], True), expected, atol=2e-4, rtol=0)
