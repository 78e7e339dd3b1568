"""The middle square of images of any size, scaled: preprocessing that can be exported.

The scaling is a triangle filter. What gets exported is two matrix products with its weights:
operations that mean the same everywhere, which cannot be said of ONNX's Resize at the edges of an
image. On a CPU, PyTorch has the same filter without the zeros, three to four times as fast.
"""

import torch
import torch.nn.functional as F
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
    if images.device.type == "cpu" and not torch.compiler.is_compiling():
        return F.interpolate(
            middle, (size, size), mode="bilinear", antialias=True, align_corners=False
        )
    weights = triangle_filter(side, size, images.device).to(dtype)
    return weights @ middle @ weights.T
