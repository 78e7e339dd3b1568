"""The machine's limit: its speed in a matrix product."""

from functools import cache

import torch
from torch import Tensor

from tadam.benchmarks.worker import shortest
from tadam.system.allocator import keep_large_blocks


@cache
def _matrices(size: int) -> tuple[Tensor, Tensor, Tensor]:
    keep_large_blocks()
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(size, size, generator=generator) for _ in range(2))
    return a, b, torch.empty(size, size)


def gemm_seconds(size: int, seconds: float) -> float:
    """Time of one square fp32 matrix product; like `gemm_gflops`, runs in a worker."""
    a, b, out = _matrices(size)
    return shortest(lambda t: torch.mm(a, b, out=out), seconds)


def gemm_gflops(size: int, seconds: float) -> float:
    """Best rate of that product, in 1e9 operations per second."""
    gemm_seconds(size, 0.0)  # warms up
    return 2 * size**3 / gemm_seconds(size, seconds) / 1e9
