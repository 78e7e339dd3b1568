"""Batch norm: as a scale and a shift, with no or two memories, with right second derivatives."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def running_affine(norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """Scale and shift of each channel, (C,), by the running statistics."""
    if norm.running_mean is None or norm.running_var is None:
        raise ValueError("a batch norm that uses the batch's statistics has no fixed scale")
    scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
    return scale, norm.bias - norm.running_mean * scale


def use_batch_statistics(module: nn.Module) -> None:
    """Has every batch norm in `module` use the batch's own statistics, in training and at test.

    They keep no running ones, so an image's output depends on the images beside it.
    """
    for norm in module.modules():
        if isinstance(norm, _BatchNorm):
            norm.track_running_stats = False
            norm.running_mean = norm.running_var = norm.num_batches_tracked = None


class SecondStatistics(nn.Module):
    """A second set of running statistics for the batch norms of a network.

    A network that sees two kinds of input, or that something shifts in one of two passes, has
    other means and variances in each; their mixture would fit neither.

    Args:
        network: Its batch norms have running statistics.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        norms = [norm for norm in network.modules() if isinstance(norm, _BatchNorm)]
        self._norms = tuple(norms)  # a tuple, so that they are not registered twice
        for number, norm in enumerate(norms):
            for name, buffer in norm.named_buffers():
                self.register_buffer(f"{name}_{number}", buffer.clone())

    @contextmanager
    def used(self) -> Iterator[None]:
        """Within the block the network has these statistics in place of its own."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def _exchange(self) -> None:
        for number, norm in enumerate(self._norms):
            for name in list(norm._buffers):
                own = f"{name}_{number}"
                self._buffers[own], norm._buffers[name] = norm._buffers[name], self._buffers[own]


class ComposedBatchNorm2d(nn.BatchNorm2d):
    """Batch norm in elementary operations.

    Inside `torch.func.vmap`, the second derivatives of PyTorch's own batch norm are wrong by
    several percent (2.13.0): as if mean and variance did not depend on the input.
    """

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        if not self.training and self.running_mean is not None:
            return super().forward(x)
        mean = x.mean(dim=(0, 2, 3))
        x = x - mean[:, None, None]
        variance = x.square().mean(dim=(0, 2, 3))
        if self.running_mean is not None:
            self._move(mean, variance, x.numel() // x.shape[1])
        scale = self.weight * (variance + self.eps).rsqrt()
        return x * scale[:, None, None] + self.bias[:, None, None]

    def _move(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """Moves the running statistics."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            unbiased = variance * (count / max(1, count - 1))
            self.running_mean.add_(self.momentum * (mean - self.running_mean))
            self.running_var.add_(self.momentum * (unbiased - self.running_var))


def compose_norms(module: nn.Module) -> None:
    """Replaces every batch norm inside `module` by a `ComposedBatchNorm2d` with its tensors."""
    for parent in list(module.modules()):
        for name, norm in parent.named_children():
            if type(norm) is nn.BatchNorm2d:
                composed = ComposedBatchNorm2d(norm.num_features, norm.eps, norm.momentum)
                composed.weight, composed.bias = norm.weight, norm.bias
                for kind in ("running_mean", "running_var", "num_batches_tracked"):
                    setattr(composed, kind, getattr(norm, kind))
                composed.track_running_stats = norm.track_running_stats
                setattr(parent, name, composed)
