"""What speed depends on: processor, cores, threads, versions."""

import multiprocessing
import platform
from pathlib import Path
from typing import Any

import torch


def machine(threads: int, core: str) -> dict[str, Any]:
    """Describes this machine, to store with results.

    Args:
        threads: Number of PyTorch threads.
        core: Which kernels run, from `tadam.native.core()`.
    """
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
        "core": core,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
