"""What speed depends on, and the machine's own limit: its rate in a matrix product."""

import multiprocessing
import platform
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tadam import native
from tadam.benchmarks.worker import shortest
from tadam.system.allocator import keep_large_blocks


def machine(threads: int) -> dict[str, Any]:
    """Processor, threads, versions, and which core runs."""
    info = Path("/proc/cpuinfo")
    models = [
        line.partition(":")[2].strip()
        for line in (info.read_text().splitlines() if info.exists() else [])
        if line.startswith("model name")
    ]
    return {
        "cpu": models[0] if models else platform.processor() or platform.machine(),
        "cores": multiprocessing.cpu_count(),
        "threads": threads,
        "core": native.core(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


@cache
def _matrices(size: int) -> tuple[Tensor, Tensor, Tensor]:
    keep_large_blocks()
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(size, size, generator=generator) for _ in range(2))
    return a, b, torch.empty(size, size)


def gemm_seconds(size: int, seconds: float) -> float:
    """Of a square fp32 matrix product; runs in a worker, like the next."""
    a, b, out = _matrices(size)
    return shortest(lambda t: torch.mm(a, b, out=out), seconds)


def gemm_gflops(size: int, seconds: float) -> float:
    """Best rate of that product in 1e9 operations a second."""
    gemm_seconds(size, 0.0)  # warms up
    return 2 * size**3 / gemm_seconds(size, seconds) / 1e9
