"""The native convolution and its gradients against float64, on every kind of shape."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.grad import conv2d_weight

from tadam import native
from tadam.native.convolution import (
    Gradient,
    convolve,
    convolve_and_finish,
    convolve_backward,
    pack,
)
from tadam.native.norm import Activated, Finish, Scaled

needs_core = pytest.mark.skipif(
    not native.available(), reason="the native core was not built: no C++ compiler here"
)
#: images, channels, filters, height, width: odd sizes, ragged channels, one image, one channel,
#: many tiles of few channels (each thread by itself) and few tiles of many (all threads together),
#: more tiles than are transformed at once, depth in two parts
SHAPES = [
    (2, 16, 16, 32, 32),
    (3, 17, 31, 21, 13),
    (1, 16, 40, 16, 17),
    (16, 64, 16, 4, 4),
    (20, 33, 16, 1, 5),
    (5, 16, 16, 11, 11),
    (1, 1, 1, 1, 1),
    (9, 1, 8, 40, 44),
    (40, 20, 36, 17, 9),
    (1, 16, 16, 4, 300),
    (2, 272, 130, 7, 8),
    (700, 300, 20, 4, 4),
]


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(*shape, generator=generator)
    return values.contiguous(memory_format=torch.channels_last) if len(shape) == 4 else values


def close(ours: Tensor, expected: Any, tolerance: float = 3e-5) -> bool:
    return bool((ours - expected).abs().max() <= tolerance * expected.abs().max())


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@needs_core
@pytest.mark.parametrize("shape", SHAPES)
def test_output_moments_and_gradients_agree_with_float64(shape: tuple[int, ...]) -> None:
    images, channels, filters, height, width = shape
    x, weight = draw(images, channels, height, width), draw(filters, channels, 3, 3, seed=1)
    grad, other = (draw(images, filters, height, width, seed=s) for s in (2, 3))
    tasks = images if images < 4 else 1
    scale, other_scale, shift = draw(tasks, filters), draw(filters, seed=5), draw(filters, seed=6)
    x64, weight64 = x.double().requires_grad_(), weight.double().requires_grad_()
    expected = F.conv2d(x64, weight64, padding=1)
    whole = grad.double() * scale.double().repeat_interleave(images // tasks, 0)[:, :, None, None]
    whole = whole + (other.double() * other_scale[:, None, None] + shift[:, None, None])
    expected.backward(whole)

    spread = expected.var(dim=(0, 2, 3), correction=0)
    gradient = Gradient(grad, scale, other, other_scale, shift)
    for count in (1, 2, 3):
        with threads(count):
            y, mean, variance = convolve(x, pack(weight), filters)
            grad_x, grad_weight = convolve_backward(
                gradient, x, weight, pack(weight, forward=False)
            )
            nothing, again = convolve_backward(gradient, x, weight, None)
        assert grad_x is not None
        assert close(y, expected)
        assert close(mean[0], expected.mean(dim=(0, 2, 3)), 1e-3)
        torch.testing.assert_close(variance.double(), spread, rtol=1e-4, atol=1e-4)
        assert close(grad_x.values, x64.grad)
        assert grad_x.sums is None
        assert close(grad_weight, weight64.grad, 1e-4)
        assert nothing is None
        assert torch.equal(again, grad_weight)


@needs_core
@pytest.mark.parametrize(
    ("shape", "activation"), list(zip(SHAPES, cycle(["swish", "relu"]), strict=False))
)
def test_an_activation_can_be_made_while_it_is_convolved(
    shape: tuple[int, ...], activation: str
) -> None:
    images, channels, filters, height, width = shape
    before, weight = draw(images, channels, height, width), draw(filters, channels, 3, 3, seed=1)
    tasks = images if images < 4 else 1
    scale, shift = draw(tasks, channels, seed=7), draw(tasks, channels, seed=8)
    grad = draw(images, filters, height, width, seed=2)
    per_image = [
        v.double().repeat_interleave(images // tasks, 0)[:, :, None, None] for v in (scale, shift)
    ]
    scaled64 = (per_image[0] * before + per_image[1]).requires_grad_()
    weight64 = weight.double().requires_grad_()
    x64 = F.silu(scaled64) if activation == "swish" else F.relu(scaled64)
    expected = F.conv2d(x64, weight64, padding=1)
    expected.backward(grad.double())

    source = Activated(Scaled(before, scale, shift), activation)
    nothing = torch.zeros(filters)
    gradient = Gradient(grad, torch.ones(1, filters), grad, nothing, nothing)
    assert scaled64.grad is not None
    for count in (1, 2, 3):
        with threads(count):
            y, mean, _ = convolve(source, pack(weight), filters)
            of_source, grad_weight = convolve_backward(
                gradient, source, weight, pack(weight, False)
            )
            computed = source.computed()
        assert of_source is not None
        assert of_source.sums is not None
        assert close(computed, x64)
        assert close(y, expected)
        assert close(mean[0], expected.mean(dim=(0, 2, 3)), 1e-3)
        assert close(of_source.values, scaled64.grad)
        assert close(grad_weight, weight64.grad, 1e-4)
        for place, factor in enumerate((torch.ones(()), before)):
            sums = (scaled64.grad * factor).unflatten(0, (tasks, -1)).sum(dim=(1, 3, 4))
            assert close(of_source.sums[:, place], sums, 1e-4)


@needs_core
@pytest.mark.parametrize("activation", ["swish", "relu"])
@pytest.mark.parametrize("pool", [None, "up", "down"])
@pytest.mark.parametrize("residual", [False, True])
def test_what_follows_the_convolution_in_inference(
    activation: str, pool: str | None, residual: bool
) -> None:
    for shape in [(2, 16, 20, 8, 8), (4, 17, 16, 21, 13), (6, 130, 280, 6, 5)]:
        images, channels, filters, height, width = shape
        x, weight = draw(images, channels, height, width), draw(filters, channels, 3, 3, seed=1)
        scale, shift = draw(2, filters, seed=2), draw(2, filters, seed=3)
        side = (draw(images, filters, height, width, seed=4), draw(filters, seed=5))
        per_image = [
            v.double().repeat_interleave(images // 2, 0)[:, :, None, None] for v in (scale, shift)
        ]
        expected = per_image[0] * F.conv2d(x.double(), weight.double(), padding=1) + per_image[1]
        if residual:
            expected = expected + side[0].double() * side[1].double()[:, None, None]
        expected = F.silu(expected) if activation == "swish" else F.relu(expected)
        if pool:
            expected = F.max_pool2d(expected, 2, ceil_mode=pool == "up")
        shortcut, finish = side if residual else None, Finish(activation, pool)
        for count in (1, 2, 3):
            with threads(count):
                y = convolve_and_finish(x, pack(weight), scale, shift, shortcut, finish)
            assert y.shape == expected.shape
            assert close(y, expected)


@needs_core
def test_moments_of_values_far_from_zero() -> None:
    x, weight = (
        torch.ones(30, 16, 33, 33).contiguous(memory_format=torch.channels_last),
        draw(16, 16, 3, 3),
    )
    x += 1e-2 * draw(30, 16, 33, 33)
    weight = weight.abs()
    expected = F.conv2d(x.double(), weight.double(), padding=1)
    _, mean, variance = convolve(x, pack(weight), 16)
    assert close(mean[0], expected.mean(dim=(0, 2, 3)), 1e-6)
    assert close(variance, expected.var(dim=(0, 2, 3), correction=0), 1e-4)


@pytest.mark.skipif(
    shutil.which("g++") is None or os.environ.get("TADAM_NATIVE") == "0",
    reason="there is no compiler here, or the core was switched off",
)
def test_where_there_is_a_compiler_the_core_was_built() -> None:
    assert native.available()  # or the tests of the core would all be skipped, and nobody told


def test_the_core_can_be_switched_off() -> None:
    code = "from tadam import native; assert not native.available()"
    environment = {"TADAM_NATIVE": "0", "PATH": ""}
    assert (
        subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
    )


@needs_core
def test_weight_gradients_of_more_tiles_than_wide_layers_transform_at_a_time_add_up() -> None:
    generator = torch.Generator().manual_seed(0)
    images, channels, size = 120, 256, 8  # 480 tiles, up to 455 of them at a time
    x, y, w = (
        torch.randn(shape, generator=generator).contiguous(memory_format=torch.channels_last)
        for shape in (*[(images, channels, size, size)] * 2, (channels, channels, 3, 3))
    )
    ones, zeros = torch.ones(channels), torch.zeros(channels)
    _, found = convolve_backward(Gradient(y, ones[None], y, zeros, zeros), x, w, None)
    expected = conv2d_weight(x.double(), w.shape, y.double(), padding=1)
    assert (found - expected).norm() < 1e-4 * expected.norm()
