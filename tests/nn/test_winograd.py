"""The native core: convolution and its gradients against float64, on every shape it accepts."""

import itertools
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from tadam import native
from tadam.nn import winograd
from tadam.nn.winograd import constant_weights, conv3x3

needs_core = pytest.mark.skipif(
    not native.available(), reason="the native core was not built: no C++ compiler here"
)
#: images, channels, filters, height, width: odd sizes, ragged channels, one image, one tile
SHAPES = [
    (2, 16, 16, 32, 32),
    (3, 17, 31, 21, 13),
    (1, 16, 40, 16, 17),
    (16, 64, 16, 4, 4),
    (20, 33, 16, 1, 5),
    (5, 16, 16, 11, 11),
]


def tensors(images, channels, filters, height, width):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(images, channels, height, width, generator=generator)
    weight = torch.randn(filters, channels, 3, 3, generator=generator)
    grad = torch.randn(images, filters, height, width, generator=generator)
    return [t.contiguous(memory_format=torch.channels_last) for t in (x, weight, grad)]


def results(function, x, weight, grad):
    x, weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    y = function(x, weight)
    y.backward(grad)
    return y.detach(), x.grad, weight.grad


def assert_close(ours, expected):
    for a, b in zip(ours, expected, strict=True):
        assert (a - b).abs().max() <= 2e-5 * b.abs().max()


def reference(x, weight, grad):
    def convolve(x, weight):
        return F.conv2d(x, weight, padding=1)

    return results(convolve, x.double(), weight.double(), grad.double())


@needs_core
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_output_and_gradients_agree_with_float64(shape, threads, monkeypatch):
    used = []
    monkeypatch.setattr(native, "winograd", spy(native.winograd, used))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        given = tensors(*shape)
        assert_close(results(conv3x3, *given), reference(*given))
    finally:
        torch.set_num_threads(before)
    assert used


def spy(function, calls):
    def call(*args, **kwargs):
        calls.append(args)
        return function(*args, **kwargs)

    return call


@needs_core
def test_a_batch_beyond_the_buffer_is_done_in_parts(monkeypatch):
    given = tensors(7, 16, 20, 9, 8)
    whole = results(conv3x3, *given)
    calls = []
    monkeypatch.setattr(winograd, "_BUFFER", 36 * 4 * 20 * 6 * 2)  # two images
    monkeypatch.setattr(native, "winograd", spy(native.winograd, calls))
    assert_close(results(conv3x3, *given), whole)
    assert len(calls) == 4 * 5  # 7 images: four parts of two transforms forward and three backward


@needs_core
@pytest.mark.parametrize(
    "change",
    [
        lambda x, w: (x.double(), w.double()),
        lambda x, w: (x[:, :3], w[:, :3]),  # too few channels
        lambda x, w: (x.contiguous(), w),  # not channels last
        lambda x, w: (x[:, :, ::2], w),  # not contiguous
        lambda x, w: (x[:1, :, :4, :4], w),  # too few tiles to pay
        lambda x, w: (x[:0], w),  # no images
    ],
)
def test_what_the_core_does_not_take_falls_back_to_pytorch(change, monkeypatch):
    monkeypatch.setattr(native, "winograd", lambda *_, **__: pytest.fail("the core was called"))
    x, weight, _ = tensors(2, 16, 16, 32, 32)
    x, weight = change(x, weight)
    torch.testing.assert_close(conv3x3(x, weight), F.conv2d(x, weight, padding=1))


@needs_core
def test_a_changed_weight_is_transformed_again():
    x, weight, _ = tensors(2, 16, 16, 8, 8)
    with constant_weights():
        first = conv3x3(x, weight)
    with torch.no_grad():
        weight.data *= 2
    with constant_weights():
        torch.testing.assert_close(conv3x3(x, weight), 2 * first)
    torch.testing.assert_close(conv3x3(x, weight), 2 * first)


@needs_core
@pytest.mark.parametrize(
    ("conditioned", "residual", "pool"), list(itertools.product((False, True), repeat=3))
)
@pytest.mark.parametrize(("channels", "size"), [(1, 5), (4, 8), (5, 5), (8, 5), (8, 8), (35, 5)])
def test_the_native_norm_agrees_with_the_plain_one(conditioned, residual, pool, channels, size):
    from test_fused import everything, norm, plain

    from tadam.nn.fused import norm_film_swish

    generator = torch.Generator().manual_seed(channels)

    def given(dtype):
        generator.manual_seed(channels)

        def draw(*shape):
            return torch.randn(*shape, generator=generator).to(dtype)

        x = (
            draw(6, channels, 7, size)
            .contiguous(memory_format=torch.channels_last)
            .requires_grad_()
        )
        modulation = shortcut = None
        if conditioned:
            modulation = tuple(draw(2, channels).requires_grad_() for _ in range(2))
        if residual:
            side = draw(6, channels, 7, size).contiguous(memory_format=torch.channels_last)
            shortcut = (side.requires_grad_(), norm(channels).to(dtype))
        return x, norm(channels).to(dtype), modulation, shortcut

    outcomes = []
    for function, dtype in ((norm_film_swish, torch.float32), (plain, torch.float64)):
        arguments = given(dtype)
        out = function(*arguments, pool)
        weights = torch.arange(out.numel(), dtype=torch.float64).reshape(out.shape).cos().to(dtype)
        grads = torch.autograd.grad((out * weights).sum(), everything(*arguments))
        outcomes.append([out, *grads, *arguments[1].buffers()])
    for ours, expected in zip(*outcomes, strict=True):
        torch.testing.assert_close(ours.double(), expected.double(), rtol=2e-4, atol=2e-4)


def test_the_core_can_be_switched_off():
    code = "from tadam import native; assert not native.available()"
    environment = {"TADAM_NATIVE": "0", "PATH": ""}
    assert (
        subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
    )
