"""`--device auto|cpu|cuda|mps` -> a torch device that is really there."""

import torch

from tadam.errors import UserError


def choose_device(name: str = "auto") -> torch.device:
    """The device of that name; `auto` takes CUDA, then MPS, then the CPU."""
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(kind for kind, there in available.items() if there))
    if name not in available:
        raise UserError(f"unknown device {name!r}: choose auto, cpu, cuda or mps")
    if not available[name]:
        raise UserError(f"device {name!r} is not available on this machine: use --device cpu")
    return torch.device(name)
