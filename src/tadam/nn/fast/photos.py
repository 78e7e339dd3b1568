"""Photos made ready for a network by the native core, where it takes them."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tadam import native
from tadam.native import photo
from tadam.nn.square import triangle_filter


def prepared(
    photos: Sequence[npt.NDArray[np.uint8]], size: int, mean: Tensor, std: Tensor, planes: bool
) -> Tensor | None:
    """The middle squares, scaled and normalised; None if that is left to PyTorch.

    Args:
        photos: Of one size, (H, W, C) each.
        size: Side of the result.
        mean: Mean of each channel, (C, 1, 1).
        std: Standard deviation of each channel.
        planes: Whether each channel is to lie by itself in memory; else channels are last.

    Returns:
        (N, C, size, size).
    """
    suits = (
        photos[0].shape[2] == 3
        and photos[0].shape[:2] != (size, size)  # else there is nothing to scale
        and photos[0].size > 0
        and all(pixels.flags.c_contiguous and pixels.dtype == np.uint8 for pixels in photos)
        and mean.dtype == torch.float32
        and mean.device.type == "cpu"
        and native.available()
    )
    if not suits:
        return None
    return photo.prepare(photos, _taps(min(photos[0].shape[:2]), size), mean, std, planes)


@lru_cache(maxsize=64)  # photos of one camera have one size
def _taps(length: int, size: int) -> Tensor:
    """The triangle filter without its zeros: see `photo.prepare`."""
    dense = triangle_filter(length, size)
    first = (dense > 0).int().argmax(dim=1)
    most = int((dense > 0).sum(dim=1).max())
    padded = torch.nn.functional.pad(dense, (0, most))
    weights = padded.gather(1, first[:, None] + torch.arange(most))
    return torch.cat([first[:, None].float(), weights], dim=1)
