"""Batch norm in elementary operations, whose second derivatives `torch.func` gets right."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class ComposedBatchNorm2d(nn.BatchNorm2d):
    """Batch norm in elementary operations.

    Inside `torch.func.vmap` of `torch.func.grad`, second derivatives of PyTorch's own batch norm
    are off by several percent (2.13.0); finite differences and a loop over tasks agree with these.

    Attributes:
        first: How many of the first images' statistics normalise the whole batch, at test too;
            None for the usual ones. See `normalised_by_first`.
    """

    first: int | None = None

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        if not self.training and self.running_mean is not None and self.first is None:
            return super().forward(x)
        # Sums, since the derivative of `mean` divides once for each pixel instead of each channel.
        counted = x[: self.first]
        count = counted.numel() // x.shape[1]
        mean = counted.sum(dim=(0, 2, 3)) / count
        x = x - mean[:, None, None]
        variance = x[: self.first].square().sum(dim=(0, 2, 3)) / count
        if self.running_mean is not None and self.first is None:
            self._move(mean, variance, count)
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


@contextmanager
def normalised_by_first(module: nn.Module, images: int) -> Iterator[None]:
    """Inside, the statistics of the first `images` of a batch normalise all of it.

    The norms of `module` must be composed (`compose_norms`).
    """
    norms = [part for part in module.modules() if isinstance(part, ComposedBatchNorm2d)]
    for norm in norms:
        norm.first = images
    try:
        yield
    finally:
        for norm in norms:
            norm.first = None


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
