"""3x3 convolution by Winograd's F(4x4, 3x3) in plain PyTorch, for machines without the native core.

Transform, 36 matrix products, transform back: a quarter of the multiplications (Lavin and Gray,
2015). Transforms are matrix products too, which pays where channels are many.
"""

import math
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tadam.constant_weights import reused
from tadam.nn.first_order import refuse_second_order

#: Fewer channels than this are quicker by PyTorch's own convolution.
_LEAST_CHANNELS = 256
#: Bytes of transformed images at a time.
_BUFFER = 16 * 2**20


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


@cache
def _transforms() -> tuple[Tensor, Tensor, Tensor]:
    """Of weights (36, 9), of input (36, 36) and of output (16, 36), rows and columns at once."""
    weights = [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ]
    images = [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]
    outputs = [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]
    tables = (torch.tensor(table, dtype=torch.float32) for table in (weights, images, outputs))
    weight, image, output = (torch.kron(table, table) for table in tables)
    return weight, image, output


def _weights(weight: Tensor) -> Tensor:
    """(K, C, 3, 3) -> (36, K, C)."""
    taps = weight.detach().permute(2, 3, 0, 1).reshape(9, -1)
    return (_transforms()[0] @ taps).view(36, *weight.shape[:2])


def _rows_and_columns(x: Tensor) -> tuple[int, int]:
    """4x4 tiles of an image, (N, H, W, C)."""
    return -(-x.shape[1] // 4), -(-x.shape[2] // 4)


def _input(x: Tensor) -> Tensor:
    """(N, H, W, C) -> (36, tiles, C): the 6x6 patches around each tile, transformed."""
    images, height, width, channels = x.shape
    rows, columns = _rows_and_columns(x)
    padded = _scratch("padded", images, 4 * rows + 2, 4 * columns + 2, channels).zero_()
    padded[:, 1 : height + 1, 1 : width + 1] = x
    n, h, w, c = padded.stride()
    overlapping = padded.as_strided(
        (6, 6, images, rows, columns, channels), (h, w, n, 4 * h, 4 * w, c)
    )
    patches = _scratch("patches", *overlapping.shape).copy_(overlapping).view(36, -1)
    v = torch.mm(_transforms()[1], patches, out=_scratch("input", *patches.shape))
    return v.view(36, -1, channels)


def _input_adjoint(v: Tensor, x: Tensor) -> None:
    """(36, tiles, C) -> x, (N, H, W, C): patches overlap by two pixels, which are added up."""
    images, height, width, channels = x.shape
    rows, columns = _rows_and_columns(x)
    flat = v.view(36, -1)
    patches = torch.mm(_transforms()[1].T, flat, out=_scratch("patches", *flat.shape))
    patches = patches.view(6, 6, images, rows, columns, channels)
    patches = patches.permute(2, 3, 0, 4, 1, 5)  # (N, rows, 6, columns, 6, C)
    total = _scratch("total", images, rows + 1, 4, columns + 1, 4, channels).zero_()
    total[:, :-1, :, :-1] += patches[:, :, :4, :, :4]
    total[:, 1:, :2, :-1] += patches[:, :, 4:, :, :4]
    total[:, :-1, :, 1:, :2] += patches[:, :, :4, :, 4:]
    total[:, 1:, :2, 1:, :2] += patches[:, :, 4:, :, 4:]
    padded = total.view(images, 4 * rows + 4, 4 * columns + 4, channels)
    x.copy_(padded[:, 1 : height + 1, 1 : width + 1])


def _output(m: Tensor, y: Tensor) -> None:
    """(36, tiles, K) -> y, (N, H, W, K)."""
    images, height, width, filters = y.shape
    rows, columns = _rows_and_columns(y)
    flat = m.view(36, -1)
    tiles = torch.mm(_transforms()[2], flat, out=_scratch("pixels", 16, flat.shape[1]))
    tiles = tiles.view(4, 4, images, rows, columns, filters).permute(2, 3, 0, 4, 1, 5)
    if (height, width) == (4 * rows, 4 * columns):
        y.view(tiles.shape).copy_(tiles)
    else:
        whole = tiles.reshape(images, 4 * rows, 4 * columns, filters)
        y.copy_(whole[:, :height, :width])


def _output_adjoint(grad: Tensor) -> Tensor:
    """(N, H, W, K) -> (36, tiles, K)."""
    images, height, width, filters = grad.shape
    rows, columns = _rows_and_columns(grad)
    whole = F.pad(grad, (0, 0, 0, 4 * columns - width, 0, 4 * rows - height))
    tiles = whole.reshape(images, rows, 4, columns, 4, filters).permute(2, 4, 0, 1, 3, 5)
    pixels = _scratch("pixels", *tiles.shape).copy_(tiles).view(16, -1)
    m = torch.mm(_transforms()[2].T, pixels, out=_scratch("output", 36, pixels.shape[1]))
    return m.view(36, -1, filters)


def _parts(x: Tensor, weight: Tensor) -> Iterator[slice]:
    """Ranges of the images (N, H, W, C) whose transforms fit into the buffer."""
    rows, columns = _rows_and_columns(x)
    count = max(1, _BUFFER // (36 * 4 * max(weight.shape[:2]) * rows * columns))
    for start in range(0, len(x), count):
        yield slice(start, start + count)


def _channels_last(x: Tensor) -> Tensor:
    """(N, C, H, W) -> (N, H, W, C)."""
    return x.permute(0, 2, 3, 1)


class _Winograd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        u = reused(weight, "winograd", lambda: _weights(weight))
        x = _channels_last(x)
        y = x.new_empty(*x.shape[:3], len(weight))
        for part in _parts(x, weight):
            v = _input(x[part])
            m = torch.bmm(v, u.mT, out=_scratch("output", 36, v.shape[1], len(weight)))
            _output(m, y[part])
        return y.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor]:
        refuse_second_order()
        x, weight = ctx.saved_tensors
        u = reused(weight, "winograd", lambda: _weights(weight))
        x, grad = _channels_last(x), _channels_last(grad)
        grad_u = torch.zeros_like(u)
        grad_x = x.new_empty(x.shape) if ctx.needs_input_grad[0] else None
        for part in _parts(x, weight):
            m = _output_adjoint(grad[part])
            v = _input(x[part])
            grad_u.baddbmm_(m.mT, v)
            if grad_x is not None:
                _input_adjoint(torch.bmm(m, u, out=v), grad_x[part])
        taps = _transforms()[0].T @ grad_u.view(36, -1)
        grad_weight = taps.view(3, 3, *weight.shape[:2]).permute(2, 3, 0, 1)
        of_x = grad_x.permute(0, 3, 1, 2) if grad_x is not None else None
        return of_x, grad_weight.contiguous(memory_format=torch.channels_last)


def conv3x3(x: Tensor, weight: Tensor) -> Tensor:
    """3x3 convolution with a border of zeros, (N, C, H, W) and (K, C, 3, 3) -> (N, K, H, W).

    By Winograd's transform where that pays, else by PyTorch.
    """
    pays = (
        not torch.compiler.is_compiling()
        and min(weight.shape[:2]) >= _LEAST_CHANNELS
        and x.device.type == weight.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and x.numel() > 0
    )
    if pays:
        out: Tensor = _Winograd.apply(x, weight)  # type: ignore[no-untyped-call]
        return out
    return F.conv2d(x, weight, padding=1)
