"""The gradient of a tensor, which has to be there."""

from torch import Tensor


def grad(tensor: Tensor) -> Tensor:
    assert tensor.grad is not None
    return tensor.grad
