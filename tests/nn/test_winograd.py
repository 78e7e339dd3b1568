"""Winograd's convolution in plain PyTorch against the direct one in float64."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F

from tadam.native.constant_weights import constant_weights
from tadam.nn import winograd
from tadam.nn.winograd import conv3x3


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(*shape, generator=generator)
    return values.contiguous(memory_format=torch.channels_last)


def results(function, x, weight, grad):
    x, weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    y = function(x, weight)
    y.backward(grad)
    return y.detach(), x.grad, weight.grad


def direct(x, weight):
    return F.conv2d(x, weight, padding=1)


@pytest.mark.parametrize("buffer", [winograd._BUFFER, 1])
@pytest.mark.parametrize(
    ("images", "channels", "filters", "height", "width"),
    [(3, 256, 260, 4, 4), (2, 70, 64, 9, 7), (1, 3, 5, 1, 5), (5, 64, 32, 8, 12), (2, 1, 1, 3, 2)],
)
def test_output_and_gradients_agree_with_float64(
    images, channels, filters, height, width, buffer, monkeypatch
):
    monkeypatch.setattr(winograd, "_BUFFER", buffer)  # with 1, an image at a time
    monkeypatch.setattr(winograd, "_pays", lambda *shape: True)
    x, weight = draw(images, channels, height, width), draw(filters, channels, 3, 3, seed=1)
    grad = draw(images, filters, height, width, seed=2)
    ours = results(conv3x3, x, weight, grad)
    expected = results(direct, x.double(), weight.double(), grad.double())
    for a, b in zip(ours, expected, strict=True):
        assert a.is_contiguous(memory_format=torch.channels_last)
        assert (a - b).abs().max() <= 3e-5 * b.abs().max()
    assert not torch.equal(ours[0], direct(x, weight))  # or nothing was tested here


@pytest.mark.parametrize(
    "change",
    [
        lambda x, w: (x.double(), w.double()),
        lambda x, w: (x[:, :32], w[:, :32]),
        lambda x, w: (x, w[:32]),
        lambda x, w: (x[:, :, :2, :2], w),
        lambda x, w: (x.repeat(1, 1, 3, 3), w),
        lambda x, w: (x[:0], w),
    ],
    ids=["float64", "few channels", "few filters", "a small part of a tile", "large", "no images"],
)
def test_all_else_is_pytorchs(change):
    x, weight = change(draw(2, 256, 8, 8), draw(256, 256, 3, 3))
    assert torch.equal(conv3x3(x, weight), direct(x, weight))


def test_an_input_that_is_not_channels_last():
    x, weight = draw(2, 256, 8, 8).contiguous(), draw(256, 256, 3, 3).contiguous()
    expected = direct(x.double(), weight.double())
    assert (conv3x3(x, weight) - expected).abs().max() <= 3e-5 * expected.abs().max()


def test_a_changed_weight_is_transformed_again():
    x, weight = draw(1, 256, 4, 4), draw(256, 256, 3, 3)
    with constant_weights():
        first = conv3x3(x, weight)
        assert torch.equal(conv3x3(x, weight), first)
    weight *= 2
    with constant_weights():
        torch.testing.assert_close(conv3x3(x, weight), 2 * first)


def test_memory_of_inference_mode_serves_training_too():
    x, weight = draw(2, 256, 8, 8), draw(256, 256, 3, 3)
    held, winograd._scratch._held = winograd._scratch._held, {}
    try:
        with torch.inference_mode():
            first = conv3x3(x, weight)
        second = results(conv3x3, x, weight, torch.ones_like(x))[0]
    finally:
        winograd._scratch._held = held
    assert torch.equal(first, second)


def test_threads_do_not_share_memory():
    x, weight = [draw(4, 256, 8, 8, seed=s) for s in range(4)], draw(256, 256, 3, 3)
    alone = [conv3x3(images, weight) for images in x]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            for a, b in zip(alone, pool.map(conv3x3, x, [weight] * 4), strict=True):
                assert torch.equal(a, b)


def test_a_result_is_not_changed_by_the_next():
    x, weight = draw(2, 256, 8, 8), draw(256, 256, 3, 3)
    first = conv3x3(x, weight)
    kept = first.clone()
    conv3x3(-x, weight)
    assert torch.equal(first, kept)
