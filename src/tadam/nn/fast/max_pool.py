"""2x2 max-pool with the positions of the maxima, for autograd steps of our own."""

import torch
from torch import Tensor


def _arguments(pool: str) -> tuple[list[int], list[int], list[int], list[int], bool]:
    return [2, 2], [2, 2], [0, 0], [1, 1], pool == "up"  # kernel, stride, padding, dilation, ceil


def max_pool(x: Tensor, pool: str) -> tuple[Tensor, Tensor]:
    """Pooled values, (N, C, H/2, W/2) rounded `up` or `down`, and where in x they came from."""
    pooled: tuple[Tensor, Tensor] = torch.ops.aten.max_pool2d_with_indices(x, *_arguments(pool))
    return pooled


def max_pool_backward(grad: Tensor, x: Tensor, pool: str, places: Tensor) -> Tensor:
    """Gradient of `x` from the gradient of its pooled values."""
    out: Tensor = torch.ops.aten.max_pool2d_with_indices_backward(
        grad, x, *_arguments(pool), places
    )
    return out
