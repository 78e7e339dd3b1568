"""3x3 convolution by Winograd's F(4x4, 3x3) in plain PyTorch, for machines without the native core.

Transform, 36 matrix products, transform back: a quarter of the multiplications (Lavin and Gray,
2015). Transforms are matrix products too, which pays where channels are many.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tadam.constant_weights import reused
from tadam.nn.first_order import refuse_second_order

#: Fewer channels than this are quicker by PyTorch's own convolution.
_LEAST_CHANNELS = 128
#: Bytes of transformed images at a time.
_BUFFER = 64 * 2**20


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
    """4x4 tiles of an image, (…, H, W)."""
    return -(-x.shape[-2] // 4), -(-x.shape[-1] // 4)


def _input(x: Tensor) -> Tensor:
    """(N, C, H, W) -> (36, tiles, C): the 6x6 patches around each tile, transformed."""
    images, channels, height, width = x.shape
    rows, columns = _rows_and_columns(x)
    border = (0, 0, 1, 4 * columns + 1 - width, 1, 4 * rows + 1 - height)
    padded = F.pad(x.permute(0, 2, 3, 1), border)
    n, h, w, c = padded.stride()
    patches = padded.as_strided((6, 6, images, rows, columns, channels), (h, w, n, 4 * h, 4 * w, c))
    return (_transforms()[1] @ patches.reshape(36, -1)).view(36, -1, channels)


def _input_adjoint(v: Tensor, like: Tensor) -> Tensor:
    """(36, tiles, C) -> (N, C, H, W): patches overlap by two pixels, which are added up."""
    images, channels, height, width = like.shape
    rows, columns = _rows_and_columns(like)
    patches = (_transforms()[1].T @ v.view(36, -1)).view(6, 6, images, rows, columns, channels)
    patches = patches.permute(2, 3, 0, 4, 1, 5)  # (N, rows, 6, columns, 6, C)
    total = v.new_zeros(images, rows + 1, 4, columns + 1, 4, channels)
    total[:, :-1, :, :-1] += patches[:, :, :4, :, :4]
    total[:, 1:, :2, :-1] += patches[:, :, 4:, :, :4]
    total[:, :-1, :, 1:, :2] += patches[:, :, :4, :, 4:]
    total[:, 1:, :2, 1:, :2] += patches[:, :, 4:, :, 4:]
    padded = total.view(images, 4 * rows + 4, 4 * columns + 4, channels)
    return padded[:, 1 : height + 1, 1 : width + 1].permute(0, 3, 1, 2)


def _output(m: Tensor, like: Tensor) -> Tensor:
    """(36, tiles, K) -> (N, K, H, W)."""
    rows, columns = _rows_and_columns(like)
    tiles = (_transforms()[2] @ m.view(36, -1)).view(4, 4, len(like), rows, columns, -1)
    y = tiles.permute(2, 3, 0, 4, 1, 5).reshape(len(like), 4 * rows, 4 * columns, -1)
    return y[:, : like.shape[2], : like.shape[3]].permute(0, 3, 1, 2)


def _output_adjoint(grad: Tensor) -> Tensor:
    """(N, K, H, W) -> (36, tiles, K)."""
    images, filters, height, width = grad.shape
    rows, columns = _rows_and_columns(grad)
    padded = F.pad(grad.permute(0, 2, 3, 1), (0, 0, 0, 4 * columns - width, 0, 4 * rows - height))
    tiles = padded.reshape(images, rows, 4, columns, 4, filters).permute(2, 4, 0, 1, 3, 5)
    return (_transforms()[2].T @ tiles.reshape(16, -1)).view(36, -1, filters)


def _parts(x: Tensor, channels: int) -> Iterator[slice]:
    """Ranges of images whose transforms fit into the buffer."""
    rows, columns = _rows_and_columns(x)
    count = max(1, _BUFFER // (36 * 4 * channels * rows * columns))
    for start in range(0, len(x), count):
        yield slice(start, start + count)


class _Winograd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        u = reused(weight, "winograd", lambda: _weights(weight))
        parts = [
            _output(torch.bmm(_input(x[part]), u.mT), x[part])
            for part in _parts(x, max(weight.shape[:2]))
        ]
        return torch.cat(parts).contiguous(memory_format=torch.channels_last)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor]:
        refuse_second_order()
        x, weight = ctx.saved_tensors
        u = reused(weight, "winograd", lambda: _weights(weight))
        grad_u, grad_x = torch.zeros_like(u), []
        for part in _parts(x, max(weight.shape[:2])):
            m = _output_adjoint(grad[part])
            grad_u.baddbmm_(m.mT, _input(x[part]))
            if ctx.needs_input_grad[0]:
                grad_x.append(_input_adjoint(torch.bmm(m, u), x[part]))
        taps = _transforms()[0].T @ grad_u.view(36, -1)
        grad_weight = taps.view(3, 3, *weight.shape[:2]).permute(2, 3, 0, 1)
        last = torch.channels_last
        of_x = torch.cat(grad_x).contiguous(memory_format=last) if grad_x else None
        return of_x, grad_weight.contiguous(memory_format=last)


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
