"""3x3 convolution by Winograd's F(4x4, 3x3) in plain PyTorch, for machines without the native core.

Transform, 36 matrix products, transform back: a quarter of the multiplications (Lavin and Gray,
2015). Transforms are matrix products too, of a small matrix with all pixels of an image, so that
nothing is padded, copied or put together again. It pays for small images with many channels.
"""

import math
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tadam.native.constant_weights import reused
from tadam.nn.first_order import refuse_second_order

#: Bytes of transformed images at a time.
_BUFFER = 64 * 2**20


class _Scratch(threading.local):
    """Memory of each thread for what lies between two steps, the same at every call.

    Memory of its own for each step would not be in the cache: the steps would take twice as long.
    """

    def __init__(self) -> None:
        self._held: dict[str, Tensor] = {}

    def __call__(self, name: str, *shape: int) -> Tensor:
        """A tensor whose values are whatever the last user of the name left."""
        size = math.prod(shape)
        held = self._held.get(name)
        if held is None or held.numel() < size:
            with torch.inference_mode(False):  # what is made inside could not be used outside
                held = self._held[name] = torch.empty(size)
        return held[:size].view(shape)


_scratch = _Scratch()


def _tiles(size: int) -> int:
    """Tiles of 4 pixels along a side."""
    return -(-size // 4)


@cache
def _weight_transform() -> Tensor:
    """(36, 9)."""
    rows = [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ]
    table = torch.tensor(rows)
    return torch.kron(table, table)


def _input_side(size: int) -> Tensor:
    """(tiles, 6, size): what each tile takes from the pixels of a side; the border is zero."""
    rows = [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]
    table = torch.zeros(_tiles(size), 6, 4 * _tiles(size) + 2)
    for tile, of_tile in enumerate(table):
        of_tile[:, 4 * tile : 4 * tile + 6] = torch.tensor(rows)
    return table[:, :, 1 : size + 1]


def _output_side(size: int) -> Tensor:
    """(tiles, 6, size): what each tile gives to the pixels of a side."""
    rows = [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]
    table = torch.zeros(_tiles(size), 6, 4 * _tiles(size))
    for tile, of_tile in enumerate(table):
        of_tile[:, 4 * tile : 4 * tile + 4] = torch.tensor(rows).T
    return table[:, :, :size]


@cache
def _image_transforms(height: int, width: int) -> tuple[Tensor, Tensor]:
    """Of input and, transposed, of output, (tiles * 36, height * width) each."""
    return tuple(
        torch.einsum("iax,jby->ijabxy", side(height), side(width)).reshape(-1, height * width)
        for side in (_input_side, _output_side)
    )  # type: ignore[return-value]


def _times(transform: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """The same small matrix times each of many, (A, B) and (N, B, C) -> out, (N, A, C)."""
    return torch.bmm(transform.expand(len(x), -1, -1), x, out=out)


def _weights(weight: Tensor) -> Tensor:
    """(K, C, 3, 3) -> (36, K, C)."""
    taps = weight.detach().permute(0, 2, 3, 1).flatten(1, 2)
    out = taps.new_empty(len(taps), 36, taps.shape[2])
    return _times(_weight_transform(), taps, out).transpose(0, 1)


def _transformed(name: str, transform: Tensor, x: Tensor) -> Tensor:
    """(N, H*W, C) -> (tiles, 36, N, C)."""
    images, _, channels = x.shape
    out = _times(transform, x, _scratch(name, images, len(transform), channels))
    return out.view(images, -1, 36, channels).permute(1, 2, 0, 3)


def _transformed_back(transform: Tensor, v: Tensor, out: Tensor) -> None:
    """(tiles, 36, N, C) -> out, (N, H*W, C)."""
    _times(transform.T, v.flatten(0, 1).transpose(0, 1), out)


def _products(v: Tensor, u: Tensor) -> Tensor:
    """(tiles, 36, N, C) and (36, C, K) -> (tiles, 36, N, K)."""
    out = _scratch("products", *v.shape[:3], u.shape[2])
    for of_tile, out_of_tile in zip(v, out, strict=True):
        torch.bmm(of_tile, u, out=out_of_tile)
    return out


def _pixels(x: Tensor) -> Tensor:
    """(N, C, H, W) -> (N, H*W, C)."""
    return x.permute(0, 2, 3, 1).flatten(1, 2)


def _image(pixels: Tensor, like: Tensor) -> Tensor:
    """(N, H*W, C) -> (N, C, H, W)."""
    return pixels.view(-1, *like.shape[2:], pixels.shape[2]).permute(0, 3, 1, 2)


def _parts(images: int, floats: int) -> Iterator[slice]:
    """Ranges of the images whose transforms, of so many numbers each, fit into the buffer."""
    count = max(1, _BUFFER // (4 * floats))
    for start in range(0, images, count):
        yield slice(start, start + count)


class _Winograd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        u = reused(weight, "winograd", lambda: _weights(weight))
        into, out_of = _image_transforms(*x.shape[2:])
        pixels = _pixels(x)
        y = x.new_empty(*pixels.shape[:2], len(weight))
        for part in _parts(len(x), len(into) * max(weight.shape[:2])):
            m = _products(_transformed("input", into, pixels[part]), u.mT)
            _transformed_back(out_of, m, y[part])
        return _image(y, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor]:
        refuse_second_order()
        x, weight = ctx.saved_tensors
        u = reused(weight, "winograd", lambda: _weights(weight))
        into, out_of = _image_transforms(*x.shape[2:])
        pixels, grad = _pixels(x), _pixels(grad)
        grad_u: Tensor | None = None
        grad_x = pixels.new_empty(pixels.shape) if ctx.needs_input_grad[0] else None
        for part in _parts(len(x), len(into) * max(weight.shape[:2])):
            m = _transformed("output", out_of, grad[part])
            v = _transformed("input", into, pixels[part])
            for pair in zip(m.mT, v, strict=True):
                grad_u = torch.bmm(*pair) if grad_u is None else grad_u.baddbmm_(*pair)
            if grad_x is not None:
                _transformed_back(into, _products(m, u), grad_x[part])
        assert grad_u is not None  # there is an image, and it has a tile
        taps = x.new_empty(len(weight), 9, weight.shape[1])
        _times(_weight_transform().T, grad_u.transpose(0, 1), taps)
        return _image(grad_x, x) if grad_x is not None else None, _image(taps, weight)


def _pays(height: int, width: int, channels: int, filters: int) -> bool:
    """Whether it is quicker than PyTorch's own convolution, as measured.

    It is where it multiplies 1.7 times less, transforms included, and a call has enough to do.
    """
    tiles, pixels = _tiles(height) * _tiles(width), height * width
    transforms = 36 * tiles * pixels * (channels + filters)
    products = 36 * tiles * channels * filters
    direct = 9 * pixels * channels * filters
    return min(channels, filters) >= 64 and 1.7 * (transforms + products) <= direct


def conv3x3(x: Tensor, weight: Tensor) -> Tensor:
    """3x3 convolution with a border of zeros, (N, C, H, W) and (K, C, 3, 3) -> (N, K, H, W).

    By Winograd's transform where that pays, else by PyTorch.
    """
    pays = (
        not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
        and _pays(*x.shape[2:], *weight.shape[:2])
        and x.device.type == weight.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and x.numel() > 0
    )
    if pays:
        out: Tensor = _Winograd.apply(x, weight)  # type: ignore[no-untyped-call]
        return out
    return F.conv2d(x, weight, padding=1)
