"""Batch norm as a scale and a shift, without running statistics, or with two sets of them."""

from collections.abc import Iterator
from contextlib import contextmanager

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
