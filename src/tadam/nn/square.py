"""The middle square of images of any size, scaled: preprocessing that can be exported."""

import torch.nn.functional as F
from torch import Tensor


def square(images: Tensor, size: int) -> Tensor:
    """Cuts out the middle square and scales it, smoothly where it gets smaller.

    Args:
        images: (N, C, H, W) float.
        size: Side of the result.

    Returns:
        (N, C, size, size); the images themselves if that is their size.
    """
    height, width = images.shape[-2:]
    if height == width == size:
        return images
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    middle = images[..., top : top + side, left : left + side]
    return F.interpolate(middle, (size, size), mode="bilinear", antialias=True)
