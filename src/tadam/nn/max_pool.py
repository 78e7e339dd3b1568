"""2x2 max-pool in ceil mode with the positions of the maxima, for autograd steps of our own."""

import torch
from torch import Tensor

_ARGUMENTS = ([2, 2], [2, 2], [0, 0], [1, 1], True)  # kernel, stride, padding, dilation, ceil mode


def max_pool(x: Tensor) -> tuple[Tensor, Tensor]:
    """Pooled values, (N, C, ceil(H/2), ceil(W/2)), and where in x they came from."""
    pooled: tuple[Tensor, Tensor] = torch.ops.aten.max_pool2d_with_indices(x, *_ARGUMENTS)
    return pooled


def max_pool_backward(grad: Tensor, x: Tensor, places: Tensor) -> Tensor:
    """Gradient of `x` from the gradient of its pooled values."""
    out: Tensor = torch.ops.aten.max_pool2d_with_indices_backward(grad, x, *_ARGUMENTS, places)
    return out
