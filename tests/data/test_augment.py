"""Augmentation: flips, shifts and colour changes match NumPy, and each image gets its own."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tadam.config import AugmentConfig
from tadam.data.augment import augment
from tadam.data.episodes import bits

COLOURS = AugmentConfig(brightness=0.4, contrast=0.6, saturation=0.5)
EVERYTHING = AugmentConfig(flip=True, crop_padding=3, brightness=0.4, contrast=0.6, saturation=0.5)


def random_images(count: int, height: int = 8, width: int = 8, channels: int = 3) -> torch.Tensor:
    shape = (count, height, width, channels)
    return torch.from_numpy(np.random.default_rng(5).integers(0, 256, shape, dtype=np.uint8))


def as_nhwc(batch: torch.Tensor) -> np.ndarray:
    return batch.permute(0, 2, 3, 1).numpy()


def shifts_and_flips(image: np.ndarray, pad: int) -> dict[tuple[int, int, bool], np.ndarray]:
    """Every possible outcome: reflect the border, crop to the old size, maybe flip."""
    height, width = image.shape[:2]
    padded = np.pad(image, ((pad, pad), (pad, pad), (0, 0)), mode="reflect")
    crops = {
        (dy, dx): padded[pad + dy :, pad + dx :][:height, :width]
        for dy in range(-pad, pad + 1)
        for dx in range(-pad, pad + 1)
    }
    return {
        (*at, flip): c[:, ::-1] if flip else c for at, c in crops.items() for flip in (False, True)
    }


def outcomes(images: torch.Tensor, config: AugmentConfig) -> list[tuple[int, int, bool]]:
    """The shift and flip of each image; fails unless exactly one possible outcome matches."""
    batch = as_nhwc(augment(images, config, bits(0, 3, 0)))
    found = []
    for before, after in zip(images.numpy(), batch, strict=True):
        possible = shifts_and_flips(before, config.crop_padding)
        hits = [at for at, pixels in possible.items() if np.array_equal(pixels, after)]
        assert len(hits) == 1
        found.append(hits[0])
    return found


@pytest.mark.parametrize("channels", [1, 3])
def test_a_flip_is_exactly_a_mirror_and_hits_half_of_the_images(channels: int) -> None:
    images = random_images(200, 5, 7, channels)
    found = outcomes(images, AugmentConfig(flip=True))
    assert {(dy, dx) for dy, dx, _ in found} == {(0, 0)}
    assert 65 <= sum(flip for *_, flip in found) <= 135  # five standard deviations


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("flip", [False, True])
def test_a_shift_is_a_crop_of_the_reflected_image(channels: int, flip: bool) -> None:
    images = random_images(40, 9, 11, channels)
    found = outcomes(images, AugmentConfig(flip=flip, crop_padding=4))
    assert len(set(found)) > 20
    assert {f for *_, f in found} == ({0, 1} if flip else {0})


def test_a_shift_beyond_the_image_keeps_reflecting_as_numpy_does() -> None:
    images = random_images(40, 6, 6)
    batch = as_nhwc(augment(images, AugmentConfig(crop_padding=13), bits(0, 3, 0)))
    for before, after in zip(images.numpy(), batch, strict=True):
        assert any(np.array_equal(p, after) for p in shifts_and_flips(before, 13).values())


def test_shifts_cover_their_range_and_are_independent_of_each_other() -> None:
    found = np.array(outcomes(random_images(1500, 6, 6), AugmentConfig(flip=True, crop_padding=2)))
    for column, values in enumerate(([-2, -1, 0, 1, 2], [-2, -1, 0, 1, 2], [0, 1])):
        at, counts = np.unique(found[:, column], return_counts=True)
        assert at.tolist() == values
        expected = 1500 / len(values)
        assert (np.abs(counts - expected) < 5 * expected**0.5).all()
    # Independent draws correlate by about 1/sqrt(1500) = 0.026, across columns and along them.
    assert (np.abs(np.corrcoef(found.T) - np.eye(3)) < 0.13).all()
    neighbours = [np.corrcoef(found[:-1, i], found[1:, i])[0, 1] for i in range(3)]
    assert (np.abs(neighbours) < 0.13).all()


def reference_colours(images: np.ndarray, config: AugmentConfig) -> np.ndarray:
    draws = np.random.Generator(bits(0, 3, 0)).random((3, len(images)))
    out = []
    for image, (b, c, s) in zip(images.astype(np.float64), 2 * draws.T - 1, strict=True):
        x = image * (1 + b * config.brightness)
        x = (x - x.mean()) * (1 + c * config.contrast) + x.mean()
        if image.shape[-1] == 3:
            grey = np.dot(x, [0.299, 0.587, 0.114])[..., None]
            x = (x - grey) * (1 + s * config.saturation) + grey
        out.append(np.clip(x, 0, 255))
    return np.stack(out)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "config",
    [
        AugmentConfig(brightness=0.4),
        AugmentConfig(contrast=0.6),
        AugmentConfig(saturation=0.5),
        COLOURS,
    ],
    ids=["brightness", "contrast", "saturation", "all"],
)
def test_colours_change_as_in_numpy(config: AugmentConfig, channels: int) -> None:
    images = random_images(30, channels=channels)
    batch = as_nhwc(augment(images, config, bits(0, 3, 0)))
    np.testing.assert_allclose(batch, reference_colours(images.numpy(), config), atol=1e-2)


def test_brightness_multiplies_each_image_by_its_own_factor_from_its_range() -> None:
    images = torch.full((500, 2, 2, 3), 100, dtype=torch.uint8)
    batch = augment(images, AugmentConfig(brightness=0.4), bits(0, 3, 0))
    factors = batch[:, 0, 0, 0] / 100
    assert torch.allclose(batch, 100 * factors[:, None, None, None].expand_as(batch))
    assert 0.6 <= factors.min() < 0.61
    assert 1.39 < factors.max() <= 1.4


def test_changed_colours_stay_between_0_and_255() -> None:
    images = random_images(200)
    unclipped = reference_colours(images.numpy().astype(np.float64) / 4 + 100, COLOURS)
    assert unclipped.max() < 255  # so values at the limits below were clipped
    batch = augment(images, COLOURS, bits(0, 3, 0))
    assert (batch.min().item(), batch.max().item()) == (0, 255)


def test_with_nothing_enabled_the_very_same_pixels_come_back() -> None:
    images = random_images(4)
    batch = augment(images, AugmentConfig(), bits(0, 3, 0))
    assert batch.dtype == torch.uint8
    assert batch.data_ptr() == images.data_ptr()
    np.testing.assert_array_equal(as_nhwc(batch), images.numpy())


def test_shifts_and_flips_leave_uint8_and_the_input_untouched() -> None:
    images = random_images(4)
    before = images.clone()
    batch = augment(images, AugmentConfig(flip=True, crop_padding=2), bits(0, 3, 0))
    assert batch.dtype == torch.uint8
    assert torch.equal(images, before)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "config",
    [AugmentConfig(), AugmentConfig(flip=True, crop_padding=2), COLOURS, EVERYTHING],
    ids=["nothing", "shift and flip", "colours", "everything"],
)
def test_the_batch_is_channels_last(config: AugmentConfig, channels: int) -> None:
    batch = augment(random_images(4, 6, 9, channels), config, bits(0, 3, 0))
    assert batch.shape == (4, channels, 6, 9)
    assert batch.is_contiguous(memory_format=torch.channels_last)


def test_the_source_fixes_the_result() -> None:
    images = random_images(20)
    one = augment(images, EVERYTHING, bits(0, 3, 7))
    assert torch.equal(one, augment(images, EVERYTHING, bits(0, 3, 7)))
    assert not torch.equal(one, augment(images, EVERYTHING, bits(0, 3, 8)))


def test_no_float64_is_sent_to_the_device_because_mps_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[torch.dtype] = []
    real_to: Callable[..., Tensor] = torch.Tensor.to

    def spying_to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        sent.append(self.dtype)
        return real_to(self, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "to", spying_to)
    augment(random_images(4), EVERYTHING, bits(0, 3, 0))
    assert set(sent) == {torch.int64, torch.float32}


def test_part_of_a_batch_is_augmented_as_it_is_in_the_whole() -> None:
    images = random_images(20)
    whole = augment(images, EVERYTHING, bits(0, 3, 7))
    part = augment(images[5:12], EVERYTHING, bits(0, 3, 7), first=5, total=20)
    torch.testing.assert_close(part, whole[5:12], rtol=0, atol=0)
