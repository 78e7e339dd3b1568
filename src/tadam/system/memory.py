"""Memory: the peak of this process, what the machine has, and whether a plan fits."""

import os
import sys

import torch

from tadam.errors import UserError


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


def machine_bytes() -> int | None:
    """The machine's memory; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def require_memory(needed: int, what: str, remedy: str) -> None:
    """Refuses a plan that needs more memory than the machine has, before it starts.

    Args:
        needed: A lower bound, in bytes.
        what: The plan, in the plural.
        remedy: What to change.
    """
    there = machine_bytes()
    if there is not None and needed > there:
        raise UserError(
            f"{what} need at least {needed / 2**30:,.0f} GB of memory, and this machine has "
            f"{there / 2**30:,.0f} GB: {remedy}"
        )
