"""Which inputs the kernels can take, and which pay."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from tadam import native
from tadam.nn.fast.switch import plain_wanted
from tadam.nn.film import Film, check_modulation

#: Fewer channels than the kernels have lanes, or too few tiles for the weights' transform to pay.
_LEAST_CHANNELS, _LEAST_TILES = 16, 16


def _suits(x: Tensor) -> bool:
    """Whether the kernels can read a tensor, (N, C, H, W)."""
    return (
        x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.numel() > 0
        and x.is_contiguous(memory_format=torch.channels_last)
    )


def takes(x: Tensor, filters: int = 0, film: Film = (), side: Tensor | None = None) -> bool:
    """Whether the kernels can run units on this input; modulations that do not fit are an error.

    Args:
        x: (T*N, C, H, W).
        filters: Channels that FiLM modulates.
        film: Modulations of the units, if any.
        side: Output of the shortcut's convolution, if any.
    """
    if (
        torch.compiler.is_compiling()  # an exporter only sees PyTorch's own operations
        or plain_wanted()
        or torch.is_autocast_enabled("cpu")  # what PyTorch gives back then is not float32
        or not (_suits(x) and (side is None or _suits(side)))
        or not native.available()  # a network may come from a machine that has the core
    ):
        return False
    return all(_fits(x, filters, pair) for pair in film if pair is not None)


def normalises_by_batch(norms: Iterable[nn.Module]) -> bool:
    """Whether all are batch norms that use the batch's statistics, with or without running ones.

    One that was frozen, or replaced by another layer, takes the plain path.
    """
    return all(
        isinstance(norm, nn.BatchNorm2d)
        and (norm.running_mean is None or (norm.training and norm.momentum is not None))
        and norm.affine
        for norm in norms
    )


def normalises_by_running(norms: Iterable[nn.Module]) -> bool:
    """Whether all are batch norms that use their running statistics."""
    return all(
        isinstance(norm, nn.BatchNorm2d)
        and not norm.training
        and norm.running_mean is not None
        and norm.affine
        for norm in norms
    )


def _fits(x: Tensor, filters: int, pair: Sequence[Tensor]) -> bool:
    check_modulation(len(x), filters, pair[0], pair[1])
    return all((m.dtype, m.device) == (x.dtype, x.device) for m in pair)


def pays(x: Tensor, weight: Tensor) -> bool:
    """Whether the kernels convolve (N, C, H, W) with (K, C, 3, 3) faster than PyTorch.

    Only for an x that `takes` accepts.
    """
    if not _suits(weight) or min(weight.shape[:2]) < _LEAST_CHANNELS:
        return False
    tiles = len(x) * -(-x.shape[2] // 4) * -(-x.shape[3] // 4)
    return tiles >= _LEAST_TILES
