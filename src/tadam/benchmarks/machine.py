"""What speed depends on, and the machine's own limit: its rate in a matrix product."""

import multiprocessing
import platform
from pathlib import Path
from typing import Any

import torch

from tadam import native
from tadam.allocator import keep_large_blocks
from tadam.benchmarks.worker import shortest


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
        "core": "native" if native.available() else "plain PyTorch",
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def gemm_gflops(size: int, seconds: float) -> float:
    """Best rate of a square fp32 matrix product in 1e9 operations a second; runs in a worker."""
    keep_large_blocks()
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(size, size, generator=generator) for _ in range(2))
    out = torch.empty(size, size)
    torch.mm(a, b, out=out)
    return 2 * size**3 / shortest(lambda t: torch.mm(a, b, out=out), seconds) / 1e9
