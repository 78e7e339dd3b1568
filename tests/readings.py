"""Finds out where a program waits for the device."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Readings(TorchDispatchMode):
    """Counts how often a number is read from a tensor, which waits for the device that holds it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))
