"""Chooses an available torch device (auto, cpu, cuda or mps) and moves work onto it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tadam.errors import UserError
from tadam.system.torchrun import place

#: Share of a GPU's free memory that images may take; the rest is for training.
_IMAGES_SHARE = 0.5


def choose_device(name: str = "auto") -> torch.device:
    """The named device; `auto` prefers CUDA, then MPS, then the CPU.

    Under torchrun, each process on a machine gets its own GPU.
    """
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        name = next(kind for kind, there in available.items() if there)
    if name not in available:
        raise UserError(f"unknown device {name!r}: choose auto, cpu, cuda or mps")
    if not available[name]:
        raise UserError(f"device {name!r} is not available on this machine: set `device` to cpu")
    if place().size == 1 or name == "cpu":
        return torch.device(name)
    if name == "mps":
        raise UserError("mps is a single device: set `device` to cpu, or leave torchrun out")
    if place().local_rank >= torch.cuda.device_count():
        raise UserError(
            f"this machine has {torch.cuda.device_count()} GPUs and each process needs one: lower "
            "torchrun's --nproc-per-node"
        )
    return torch.device(name, place().local_rank)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Moves a small tensor to the device without waiting for the work queued there."""
    if device.type == "cuda":  # only copies from pinned memory are asynchronous
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def images_fit(size: int, device: torch.device) -> bool:
    """Whether `size` bytes of images should move to the device; only CUDA has its own memory."""
    if device.type != "cuda":
        return False
    free, _ = torch.cuda.mem_get_info(device)
    return size <= _IMAGES_SHARE * free


def mixed_precision(device_type: str) -> AbstractContextManager[Any]:
    """Runs convolutions in the block in bfloat16 on CUDA; elsewhere that would be slower."""
    return BFloat16Convolutions(device_type) if device_type == "cuda" else nullcontext()


class BFloat16Convolutions(TorchFunctionMode):
    """Autocast for convolutions alone: bfloat16 inside, float32 before and after.

    Convolutions are nearly all of the arithmetic. Batch-norm statistics, FiLM, prototypes,
    distances and the loss keep full precision.
    """

    def __init__(self, device_type: str) -> None:
        super().__init__()
        self._device_type = device_type

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is not torch.conv2d:
            return func(*args, **(kwargs or {}))
        with torch.autocast(self._device_type, torch.bfloat16):
            return func(*args, **(kwargs or {})).float()
