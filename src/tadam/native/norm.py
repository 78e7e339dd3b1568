"""What follows a convolution, by the kernels: batch norm, FiLM, sum, activation, pool; and back.

Everything here takes float32 tensors on the CPU, images channels last in memory.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tadam.native import library


class Scaled(NamedTuple):
    """A tensor (T*N, C, H, W) with a scale and a shift of its channels, (T, C) or (C,)."""

    x: Tensor
    scale: Tensor
    shift: Tensor


class Finish(NamedTuple):
    """What follows the norm.

    Attributes:
        activation: `swish` or `relu`.
        pool: 2x2 max-pool with sizes rounded `up` or `down`, or None.
    """

    activation: str
    pool: str | None


class Activated(NamedTuple):
    """The activation of `scale * x + shift`, to be computed wherever it is read."""

    scaled: Scaled
    activation: str

    def computed(self) -> Tensor:
        """In memory, (T*N, C, H, W)."""
        return norm(self.scaled, None, Finish(self.activation, None))


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """As `convolve` gives them: (4, C), the first row the mean; and the biased variance, (C,)."""
    channels = x.shape[1]
    mean, variance = x.new_empty(4, channels), x.new_empty(channels)
    library.call(
        "moments",
        x=x,
        mean=mean,
        variance=variance,
        rows=x.numel() // channels,
        channels=channels,
        threads=torch.get_num_threads(),
    )
    return mean, variance


def affine(
    x: Tensor,
    moments: Tensor,
    variance: Tensor,
    norm: nn.BatchNorm2d,
    modulation: tuple[Tensor, Tensor] | tuple[None, None],
) -> Scaled:
    """Batch norm of x by the statistics of the batch, and FiLM; running statistics move, if any.

    Args:
        x: Input of the norm, (T*N, C, H, W).
        moments: (4, C); the mean is given, 1/std, scale and shift of the norm are filled in.
        variance: Biased, (C,).
        norm: The layer.
        modulation: gamma and beta, (T, C) each, or None twice.
    """
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    running = norm.running_mean, norm.running_var
    if norm.running_mean is None:
        running = torch.zeros_like(variance), torch.zeros_like(variance)  # the kernel wants some
    gamma, beta = modulation
    tasks, channels = len(gamma) if gamma is not None else 1, x.shape[1]
    scale, shift = x.new_empty(tasks, channels), x.new_empty(tasks, channels)
    library.call(
        "affine",
        moments=moments,
        variance=variance,
        weight=norm.weight,
        bias=norm.bias,
        running_mean=running[0],
        running_variance=running[1],
        gamma=gamma,
        beta=beta,
        scale=scale,
        shift=shift,
        epsilon=norm.eps,
        momentum=norm.momentum or 0.0,
        count=x.numel() // channels,
        tasks=tasks,
        channels=channels,
    )
    return Scaled(x, scale, shift)


def affine_backward(
    sums: Tensor, place: int, moments: Tensor, gamma: Tensor | None, count: int
) -> tuple[Tensor, Tensor | None]:
    """Gradients of what makes a scale and a shift.

    Args:
        sums: As `norm_backward` gives them, (T, 3, C).
        place: Which of them has the norm's input: 1 main, 2 side.
        moments: As `affine` left them.
        gamma: (T, C), or None without FiLM.
        count: Values of a channel.

    Returns:
        (4, C): the gradients of weight and bias, and b and d of the input's gradient, which is
        `scale * grad + b * x + d`; and those of gamma and beta, (2, T, C).
    """
    tasks, _, channels = sums.shape
    gradients = sums.new_empty(4, channels)
    film = sums.new_empty(2, tasks, channels) if gamma is not None else None
    library.call(
        "affine_backward",
        sums=sums,
        place=place,
        moments=moments,
        gamma=gamma,
        gradients=gradients,
        film=film,
        count=count,
        tasks=tasks,
        channels=channels,
    )
    return gradients, film


def norm(main: Scaled, side: Scaled | None, finish: Finish) -> Tensor:
    """`pool(act(scale * x + shift + side))`; the side's scale and shift are (C,)."""
    y = empty_images(main.x, main.x.shape, finish.pool)
    kernel = "pooled_norm" if finish.pool else "norm"
    library.call(kernel, **_inputs(main, side, finish), y=y, **_sizes(main, finish))
    return y


def norm_backward(
    grad: Tensor, main: Scaled, side: Scaled | None, finish: Finish
) -> tuple[Tensor, Tensor]:
    """Gradient before the activation, and its sums, alone and with both inputs, (T, 3, C)."""
    out = torch.empty_like(main.x)
    sums = main.x.new_empty(len(main.scale), 3, main.x.shape[1])
    kernel = "pooled_norm_backward" if finish.pool else "norm_backward"
    inputs, sizes = _inputs(main, side, finish), _sizes(main, finish)
    library.call(kernel, gradient=grad, **inputs, out=out, sums=sums, **sizes)
    return out, sums


def _inputs(main: Scaled, side: Scaled | None, finish: Finish) -> dict[str, Tensor | int | None]:
    x, scale, shift = side or (None, None, None)
    return {
        **main._asdict(),
        "side": x,
        "side_scale": scale,
        "side_shift": shift,
        "relu": int(finish.activation == "relu"),
    }


def _sizes(main: Scaled, finish: Finish) -> dict[str, int]:
    tasks = len(main.scale)
    images, channels, height, width = main.x.shape
    sizes = {"tasks": tasks, "channels": channels, "threads": torch.get_num_threads()}
    if finish.pool is None:
        return {**sizes, "rows": images // tasks * height * width}
    up = int(finish.pool == "up")
    return {**sizes, "images": images // tasks, "height": height, "width": width, "ceil": up}


def empty_images(like: Tensor, shape: Sequence[int], pool: str | None = None) -> Tensor:
    """Memory for (N, C, H, W), channels last, H and W as they were before the pool."""
    images, channels, height, width = shape
    if pool:
        up = int(pool == "up")
        height, width = (height + up) // 2, (width + up) // 2
    sizes = (images, channels, height, width)
    return torch.empty(sizes, dtype=like.dtype, memory_format=torch.channels_last)


def combine(grad: Tensor, x: Tensor, a: Tensor, b: Tensor, d: Tensor) -> Tensor:
    """`a * grad + b * x + d`; a is (T, C), b and d are (C,)."""
    out = torch.empty_like(x)
    tasks, channels = a.shape
    library.call(
        "combine",
        gradient=grad,
        x=x,
        a=a,
        b=b,
        d=d,
        out=out,
        tasks=tasks,
        rows=x.numel() // (tasks * channels),
        channels=channels,
        threads=torch.get_num_threads(),
    )
    return out
