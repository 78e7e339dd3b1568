"""The middle square of images of any size, scaled: preprocessing that can be exported.

The scaling is two matrix products with the weights of a triangle filter: operations that mean the
same everywhere, which cannot be said of ONNX's Resize at the edges of an image.
"""

import torch
from torch import Tensor


def triangle_filter(length: int, size: int, device: torch.device | None = None) -> Tensor:
    """(size, length): how much of each of `length` pixels goes into each of `size`.

    The filter is as wide as a pixel of the result, or of the image where that is wider: bilinear
    interpolation of an image that grows, a weighted mean of one that shrinks.
    """
    scale = length / size
    centres = (torch.arange(size, device=device) + 0.5) * scale
    pixels = torch.arange(length, device=device) + 0.5
    distances = (pixels - centres[:, None]).abs() / torch.sym_max(scale, 1.0)
    weights = (1 - distances).clamp_min(0)
    return weights / weights.sum(dim=1, keepdim=True)  # type: ignore[no-any-return]


def square(images: Tensor, size: int) -> Tensor:
    """Cuts out the middle square and scales it, smoothly where it gets smaller.

    Args:
        images: (N, C, H, W), uint8 or float.
        size: Side of the result.

    Returns:
        (N, C, size, size), float; the images themselves if that is their size.
    """
    height, width = images.shape[-2:]
    if height == width == size:
        return images
    side = torch.sym_min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    middle = images[..., top : top + side, left : left + side]
    # Converting after the crop, straight into the layout of the products, is faster on photos.
    dtype = images.dtype if images.is_floating_point() else torch.float32
    middle = middle.to(dtype, memory_format=torch.contiguous_format)
    weights = triangle_filter(side, size, images.device).to(dtype)
    return weights @ middle @ weights.T
