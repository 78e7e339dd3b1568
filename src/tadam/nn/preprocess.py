"""From images of any size to what a network takes."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tadam.nn.fast.photos import prepared
from tadam.nn.square import square


class Preprocess(nn.Module):
    """The middle square of each image, scaled and normalised.

    It is a module of its own so that a folded network can go without the backbone it came from.

    Args:
        image_size: Side of the square images that the network takes.
        mean: Mean of each channel on the 0-255 scale; travels with the weights.
        std: Standard deviation of each channel.
    """

    pixel_mean: Tensor
    pixel_std: Tensor

    def __init__(self, image_size: int, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.image_size, self.channels = image_size, len(mean)
        self.register_buffer("pixel_mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("pixel_std", torch.tensor(std)[:, None, None])

    def forward(self, images: Tensor) -> Tensor:
        """Images on the 0-255 scale, uint8 or float, as the network takes them.

        (N, C, H, W) -> (N, C, image_size, image_size), normalised, channels last in memory.
        """
        x = square(images, self.image_size).permute(0, 2, 3, 1)
        # One row of pixels at a time: loops over two or three channels are slow.
        mean, std = (v.flatten().repeat(self.image_size) for v in (self.pixel_mean, self.pixel_std))
        rows: Tensor = (x.flatten(2).to(mean.dtype) - mean) / std
        return rows.view(x.shape).permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)

    def photos(self, pixels: Sequence[npt.NDArray[np.uint8]], planes: bool) -> Tensor:
        """The same for photos of one size, (H, W, C) each.

        Args:
            pixels: The photos.
            planes: Whether each channel may lie by itself in memory, as onnxruntime wants them.
        """
        x = prepared(pixels, self.image_size, self.pixel_mean, self.pixel_std, planes)
        if x is not None:
            return x
        stack = torch.from_numpy(np.stack(pixels)).to(self.pixel_mean.device)
        return self(stack.permute(0, 3, 1, 2))  # type: ignore[no-any-return]
