"""Photos as a network takes them, by the kernel: the middle square, scaled and normalised."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tadam.native import library


def prepare(
    photos: Sequence[npt.NDArray[np.uint8]],
    weights: Tensor,
    mean: Tensor,
    std: Tensor,
    planes: bool,
) -> Tensor:
    """Scales the middle squares and normalises them.

    Args:
        photos: Of one size, (H, W, 3) each, their rows one after the other in memory.
        weights: The filter, (size, 1 + taps): the first pixel of a row or column that goes into
            one of the result, and how much of it and of those that follow.
        mean: Mean of each channel, three of them.
        std: Standard deviation of each channel.
        planes: Whether each channel is to lie by itself in memory; else channels are last.

    Returns:
        (N, 3, size, size).
    """
    height, width = photos[0].shape[:2]
    size = len(weights)
    shape = (len(photos), 3, size, size) if planes else (len(photos), size, size, 3)
    y = torch.empty(shape)
    for number, photo in enumerate(photos):
        library.call(
            "photo",
            pixels=photo,
            weights=weights,
            mean=mean,
            std=std,
            y=y if len(photos) == 1 else y[number],
            height=height,
            width=width,
            size=size,
            taps=weights.shape[1] - 1,
            planes=int(planes),
        )
    return y if planes else y.permute(0, 3, 1, 2)
