"""Peak memory use of this process."""

import sys

import torch


def peak_bytes(device: torch.device | None = None) -> int | None:
    """Peak resident memory of this process, or PyTorch's peak allocation on a GPU.

    None where the system does not report it (Windows).
    """
    if device is not None and device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # kilobytes elsewhere
