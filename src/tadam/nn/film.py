"""Feature-wise linear modulation of a batch of tasks: `gamma * h + beta` (TADAM, sec. 2.2)."""

from collections.abc import Sequence

import torch
from torch import Tensor

#: One (gamma, beta) pair of shape (T, C) per convolution, or None where a layer is not conditioned.
Film = Sequence[tuple[Tensor, Tensor] | None]


def film(x: Tensor, gamma: Tensor, beta: Tensor, out: Tensor | None = None) -> Tensor:
    """Scales and shifts the channels of each task's images by that task's own vectors.

    Args:
        x: Activations of all tasks' images, task after task, (T*N, C, H, W).
        gamma: Scale per task and channel, (T, C).
        beta: Shift per task and channel, (T, C).
        out: Where to write, possibly `x` itself; not differentiable.

    Returns:
        `gamma * x + beta`, (T*N, C, H, W), in the memory format of `x`.
    """
    tasks, channels = gamma.shape
    if x.shape[0] % tasks or x.shape[1] != channels:
        raise ValueError(
            f"film: {tuple(x.shape)} activations cannot be split over {tasks} tasks "
            f"with {channels} channels"
        )
    per_image = x.shape[0] // tasks
    scale = gamma.repeat_interleave(per_image, dim=0)[:, :, None, None]  # (T*N, C, 1, 1)
    shift = beta.repeat_interleave(per_image, dim=0)[:, :, None, None]
    return torch.addcmul(shift, x, scale, out=out)
