"""Images in memory: bytes, open files, floats and tensors give the answers of the plain pixels."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tadam.classify.reading import read, sources
from tadam.data.decode import Pixels
from tadam.errors import UserError


@pytest.fixture(scope="module")
def pixels() -> Pixels:
    return np.random.default_rng(0).integers(0, 256, (10, 12, 3), np.uint8)


def pixels_of(images: Any) -> list[Pixels]:
    return [read(source, i, 8, 3) for i, source in enumerate(sources(images))]


def test_every_way_to_hold_an_image_gives_its_pixels(pixels: Pixels, tmp_path: Path) -> None:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, format="PNG")
    (tmp_path / "a.png").write_bytes(content.getvalue())
    first = pixels.transpose(2, 0, 1)
    with open(tmp_path / "a.png", "rb") as file:
        ways: list[Any] = [
            content.getvalue(),
            bytearray(content.getvalue()),
            memoryview(content.getvalue()),
            content,  # its position is at the end
            file,
            pixels / 255,
            (pixels / 255).astype(np.float32),
            pixels.astype(np.float64),
            torch.from_numpy(first.copy()),
            torch.from_numpy(first / 255),
            torch.from_numpy(first / 255).requires_grad_(),
            torch.from_numpy(pixels),
        ]
        for number, image in enumerate(ways):
            (found,) = pixels_of(image)
            np.testing.assert_array_equal(found, pixels, err_msg=f"way {number}")
    for batch in (torch.from_numpy(np.stack([first, first])), np.stack([first, first]) / 255):
        assert [np.array_equal(found, pixels) for found in pixels_of(batch)] == [True, True]
    (found,) = pixels_of([first.copy()])
    np.testing.assert_array_equal(found, pixels)
    (grey,) = pixels_of(torch.from_numpy(pixels[:, :, 0] / 255))
    np.testing.assert_array_equal(grey[:, :, 0], pixels[:, :, 0])


def test_tensors_have_their_channels_first_and_arrays_last_if_both_could_be() -> None:
    square = np.zeros((3, 5, 3), np.uint8)
    assert pixels_of([square])[0].shape == (3, 5, 3)
    assert pixels_of([torch.from_numpy(square)])[0].shape == (5, 3, 3)


def test_floats_of_one_call_share_a_scale(pixels: Pixels) -> None:
    black = np.zeros((4, 4, 3))
    black[0, 0] = 1.0  # of 255, since the other one goes to 255
    dark, _ = pixels_of([black, pixels.astype(np.float32)])
    assert dark.max() == 1
    (alone,) = pixels_of([black])
    assert alone.max() == 255
    over = np.full((4, 4, 3), 1 + 1e-6)
    assert pixels_of([over])[0].max() == 255


@pytest.mark.parametrize(
    ("low", "high"), [(-2.1, 2.6), (0, 300), (-0.5, 0.5), (0, 1.7), (0, np.nan), (0, np.inf)]
)
def test_floats_of_another_scale_are_one_sentence(low: float, high: float) -> None:
    image = np.full((4, 4, 3), float(low))
    image[0, 0, 0] = high
    with pytest.raises(UserError, match=r"image 1 has values .* from 0 to 1 or from 0 to 255"):
        sources([np.zeros((4, 4, 3), np.uint8), image])


def test_what_cannot_be_an_image_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    with open(tmp_path / "a.txt") as text, pytest.raises(UserError, match="'rb'"):
        sources(text)
    with pytest.raises(UserError, match=r"image 0 is not an image that can be read"):
        pixels_of(b"no image")
    with pytest.raises(UserError, match=r"an array of int64"):
        sources([torch.zeros(3, 4, 4, dtype=torch.int64)])
    with pytest.raises(UserError, match=r"shape \(2, 5, 5\)"):
        sources([torch.zeros(2, 5, 5)])
