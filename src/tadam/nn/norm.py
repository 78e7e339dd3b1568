"""Batch norm of a trained network as a scale and a shift, and batch norm without a memory."""

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
