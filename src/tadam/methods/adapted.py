"""A method that is settled on one task: images in, logits out."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from tadam.methods.base import Method


class AdaptedMethod(nn.Module):
    """Keeps the support set and asks the method about each image.

    The answer for an image never depends on the other images. A method that sees the queries of a
    task together sees each image in the company of the support images, whose labels it knows
    anyway: their batch statistics are those that it adapts with.

    Args:
        method: Any method.
        support: (N, C, H, W).
        labels: (N,), in 0..way-1.
        way: Number of classes K.
    """

    support: Tensor
    labels: Tensor

    def __init__(self, method: "Method", support: Tensor, labels: Tensor, way: int) -> None:
        super().__init__()
        self.method, self.way = method, way
        self.register_buffer("support", support)
        self.register_buffer("labels", labels)

    def forward(self, images: Tensor) -> Tensor:
        """(Q, C, H, W) -> (Q, K)."""
        with torch.set_grad_enabled(self.method.needs_gradients):
            # Autograd cannot work with what was read in inference mode.
            images = images.clone() if images.is_inference() else images
            if not self.method.sees_queries_together:
                return self._logits(images).detach()
            company = self.support.to(images.dtype)
            parts = [self._logits(torch.cat([one[None], company]))[:1] for one in images]
        return torch.cat(parts).detach()

    def _logits(self, query: Tensor) -> Tensor:
        logits: Tensor = self.method(self.support[None], self.labels[None], query[None], self.way)
        return logits[0]
