"""3x3 convolution by Winograd's F(4x4, 3x3), with a quarter of the multiplications.

Transform, 36 matrix products, transform back (Lavin and Gray, 2015). Forward, data gradient and
weight gradient are made of the same transforms and their adjoints.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tadam import native

#: Fewer channels than the kernels have lanes, and too few tiles for the weights' transform to pay.
_LEAST_CHANNELS, _LEAST_TILES = 16, 16
#: Bytes of transformed images at a time; keeps memory bounded and the data in the cache.
_BUFFER = 32 * 2**20


@cache
def _weight_transform() -> Tensor:
    """(36, 9): G ⊗ G, from the 9 taps of a filter to the 36 of a tile."""
    g = torch.tensor(
        [
            [1 / 4, 0, 0],
            [-1 / 6, -1 / 6, -1 / 6],
            [-1 / 6, 1 / 6, -1 / 6],
            [1 / 24, 1 / 12, 1 / 6],
            [1 / 24, -1 / 12, 1 / 6],
            [0, 0, 1],
        ]
    )
    return torch.kron(g, g)


_reused = threading.local()


@contextmanager
def constant_weights() -> Iterator[None]:
    """A promise that no weight changes inside the block, so each is transformed only once there.

    A training step uses every weight six times: three passes, forward and backward.
    """
    outer = getattr(_reused, "transforms", None)
    _reused.transforms = {} if outer is None else outer
    try:
        yield
    finally:
        _reused.transforms = outer


def _transform_weight(weight: Tensor) -> Tensor:
    """(K, C, 3, 3) -> (36, K, C)."""
    known: dict[int, Tensor] | None = getattr(_reused, "transforms", None)
    if known is not None and weight.data_ptr() in known:
        return known[weight.data_ptr()]
    filters, channels = weight.shape[:2]
    taps = weight.detach().permute(2, 3, 0, 1).reshape(9, filters * channels)
    transformed = (_weight_transform() @ taps).view(36, filters, channels)
    if known is not None:
        known[weight.data_ptr()] = transformed
    return transformed


def _tiles(x: Tensor) -> int:
    """4x4 tiles of one image."""
    return -(-x.shape[2] // 4) * -(-x.shape[3] // 4)


def _parts(x: Tensor, channels: int) -> Iterator[slice]:
    """Ranges of images whose transforms fit into the buffer."""
    count = max(1, _BUFFER // (36 * 4 * channels * _tiles(x)))
    for start in range(0, len(x), count):
        yield slice(start, start + count)


class _Winograd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        filters, channels = weight.shape[:2]
        u = _transform_weight(weight)
        y = x.new_empty((len(x), filters, *x.shape[2:])).contiguous(
            memory_format=torch.channels_last
        )
        for part in _parts(x, max(filters, channels)):
            v = x.new_empty(36, len(x[part]) * _tiles(x), channels)
            native.winograd("input", x[part], v, images=x[part])
            native.winograd("output", torch.bmm(v, u.mT), y[part], images=y[part])
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor]:
        x, weight = ctx.saved_tensors
        filters, channels = weight.shape[:2]
        grad = grad.contiguous(memory_format=torch.channels_last)
        u = _transform_weight(weight)
        grad_u = None
        grad_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        for part in _parts(x, max(filters, channels)):
            tiles = len(x[part]) * _tiles(x)
            m = native.winograd(
                "output_adjoint", grad[part], x.new_empty(36, tiles, filters), images=grad[part]
            )
            v = native.winograd("input", x[part], x.new_empty(36, tiles, channels), images=x[part])
            grad_u = torch.bmm(m.mT, v) if grad_u is None else grad_u.baddbmm_(m.mT, v)
            if grad_x is not None:
                torch.bmm(m, u, out=v)
                native.winograd("input_adjoint", v, grad_x[part], images=grad_x[part])
        assert grad_u is not None  # there is at least one image
        taps = _weight_transform().T @ grad_u.view(36, -1)
        grad_weight = taps.view(3, 3, filters, channels).permute(2, 3, 0, 1)
        return grad_x, grad_weight.contiguous(memory_format=torch.channels_last)


def conv3x3(x: Tensor, weight: Tensor) -> Tensor:
    """3x3 convolution with a border of zeros, (N, C, H, W) and (K, C, 3, 3) -> (N, K, H, W).

    By Winograd where the native core can and that pays, else by PyTorch.
    """
    pays = min(weight.shape[:2]) >= _LEAST_CHANNELS and len(x) * _tiles(x) >= _LEAST_TILES
    if pays and native.accepts(x) and weight.dtype == torch.float32:
        out: Tensor = _Winograd.apply(x, weight)  # type: ignore[no-untyped-call]
        return out
    return F.conv2d(x, weight, padding=1)
