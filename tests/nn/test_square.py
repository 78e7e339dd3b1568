import pytest
import torch
import torch.nn.functional as F

from tadam.nn.conv4 import Conv4
from tadam.nn.square import square


def test_images_of_the_right_size_are_left_alone():
    images = torch.rand(2, 3, 32, 32)
    assert square(images, 32) is images


@pytest.mark.parametrize(("height", "width"), [(40, 64), (64, 40), (41, 64), (33, 32), (8, 5)])
def test_the_middle_square_is_scaled(height, width):
    side = min(height, width)
    images = torch.full((1, 1, height, width), 9.0)
    top, left = (height - side) // 2, (width - side) // 2
    inside = torch.rand(side, side)
    images[0, 0, top : top + side, left : left + side] = inside
    alone = F.interpolate(inside[None, None], (16, 16), mode="bilinear", antialias=True)
    assert torch.equal(square(images, 16), alone)


def test_fine_detail_becomes_grey_rather_than_an_alias():
    stripes = torch.zeros(1, 1, 256, 256)
    stripes[..., ::2] = 1
    small = square(stripes, 32)[..., 1:-1]
    assert (small - 0.5).abs().max() < 0.01


def test_a_backbone_takes_bytes_of_any_size():
    net = Conv4(width=4, image_size=32)
    net.pixel_mean.fill_(100.0)
    net.pixel_std.fill_(50.0)
    x = net.preprocess(torch.full((2, 3, 50, 41), 200, dtype=torch.uint8))
    assert x.shape == (2, 3, 32, 32)
    torch.testing.assert_close(x, torch.full_like(x, 2.0))
    assert x.is_contiguous(memory_format=torch.channels_last)
