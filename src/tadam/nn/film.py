"""Feature-wise linear modulation of a batch of tasks: `gamma * h + beta` (TADAM, sec. 2.2)."""

from collections.abc import Sequence

import torch
from torch import Tensor

#: One (gamma, beta) pair of shape (T, C) per convolution, or None where a layer is not conditioned.
Film = Sequence[tuple[Tensor, Tensor] | None]


def check_modulation(images: int, channels: int, gamma: Tensor, beta: Tensor) -> None:
    """Raises ValueError unless the vectors, (T, C) each, match the images and channels."""
    tasks = len(gamma)
    if gamma.shape != (tasks, channels) or beta.shape != gamma.shape or images % tasks:
        raise ValueError(
            f"film: gamma {tuple(gamma.shape)} and beta {tuple(beta.shape)} do not fit {images} "
            f"images of {channels} channels"
        )


def film(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """Scales and shifts the channels of each task's images by that task's own vectors.

    Args:
        x: Activations of all tasks' images, task after task, (T*N, C, H, W).
        gamma: Scale per task and channel, (T, C).
        beta: Shift per task and channel, (T, C).

    Returns:
        `gamma * x + beta`, (T*N, C, H, W), in the memory format of `x`.
    """
    check_modulation(len(x), x.shape[1], gamma, beta)
    if len(gamma) > 1:  # the vectors of one task go to all images as they are
        per_image = len(x) // len(gamma)
        gamma, beta = (v.repeat_interleave(per_image, dim=0) for v in (gamma, beta))  # (T*N, C)
    return torch.addcmul(beta[:, :, None, None], x, gamma[:, :, None, None])
