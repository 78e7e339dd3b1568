"""Raw pixels as an embedding: the floor that every learnt backbone is measured against."""

from torch import Tensor

from tadam.nn.backbone import Backbone
from tadam.nn.film import Film


class Pixels(Backbone):
    """Flattens an image; nothing is learnt and nothing can be conditioned."""

    def __init__(self, in_channels: int = 3, image_size: int = 32) -> None:
        super().__init__(in_channels, image_size)
        self.feature_size = in_channels * image_size * image_size

    def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
        """(N, C, H, W) -> (N, C*H*W)."""
        return x.flatten(1)
