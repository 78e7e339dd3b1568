"""How much memory this process has needed so far."""

import sys

import torch


def peak_bytes(device: torch.device | None = None) -> int | None:
    """Largest memory of this process: resident, or on a GPU what PyTorch allocated there.

    None where the system does not tell (Windows).
    """
    if device is not None and device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # kilobytes elsewhere
