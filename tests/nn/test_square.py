import pytest
import torch
import torch.nn.functional as F

from tadam.nn.backbones.conv4 import Conv4
from tadam.nn.square import square, triangle_filter


def test_images_of_the_right_size_are_left_alone() -> None:
    images = torch.rand(2, 3, 32, 32)
    assert square(images, 32) is images


@pytest.mark.parametrize(
    ("height", "width"), [(40, 64), (64, 40), (41, 64), (33, 32), (16, 17), (8, 5), (3, 1)]
)
def test_the_middle_square_is_scaled_as_pytorch_does_with_antialiasing(
    height: int, width: int
) -> None:
    side = min(height, width)
    images = torch.full((1, 1, height, width), 9.0)
    top, left = (height - side) // 2, (width - side) // 2
    inside = torch.rand(side, side)
    images[0, 0, top : top + side, left : left + side] = inside
    alone = F.interpolate(inside[None, None], (16, 16), mode="bilinear", antialias=True)
    torch.testing.assert_close(square(images, 16), alone, atol=1e-6, rtol=0)


def test_bytes_are_scaled_like_floats_and_give_floats() -> None:
    images = torch.arange(2 * 3 * 40 * 37).reshape(2, 3, 40, 37).to(torch.uint8)
    assert torch.equal(square(images, 8), square(images.float(), 8))


def test_a_filter_adds_up_to_one_and_is_worked_out_by_hand_for_halving() -> None:
    assert torch.equal(triangle_filter(5, 5), torch.eye(5))
    expected = torch.tensor([[3.0, 3.0, 1.0, 0.0], [0.0, 1.0, 3.0, 3.0]]) / 7
    torch.testing.assert_close(triangle_filter(4, 2), expected)
    torch.testing.assert_close(triangle_filter(1001, 32).sum(dim=1), torch.ones(32))


def test_fine_detail_becomes_grey_rather_than_an_alias() -> None:
    stripes = torch.zeros(1, 1, 256, 256)
    stripes[..., ::2] = 1
    small = square(stripes, 32)[..., 1:-1]
    assert (small - 0.5).abs().max() < 0.01


def test_a_backbone_takes_bytes_of_any_size() -> None:
    net = Conv4(width=4, image_size=32)
    net.pixel_mean.fill_(100.0)
    net.pixel_std.fill_(50.0)
    x = net.preprocess(torch.full((2, 3, 50, 41), 200, dtype=torch.uint8))
    assert x.shape == (2, 3, 32, 32)
    torch.testing.assert_close(x, torch.full_like(x, 2.0))
    assert x.is_contiguous(memory_format=torch.channels_last)
