"""What every feature extractor offers; subclass it to plug in one's own."""

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from tadam.config import BackboneConfig
from tadam.nn.film import Film
from tadam.nn.square import square
from tadam.registry import BACKBONES


class Backbone(nn.Module):
    """Embeds images, optionally modulated by FiLM.

    A subclass defines `embed`, and sets `feature_size` and, if FiLM can reach it,
    `conditioned_widths`; it may replace `preprocess` and
    `load_pretrained`.

    Attributes:
        feature_size: Length D of an embedding.
        image_size: Side of the square images that `embed` takes.
        conditioned_widths: Channels of each layer that FiLM can reach, in order; may be empty.
        pre_pool_layers: Which of those layers precede a pool.
        mirrored: Whether, outside training, an image's embedding is the mean of its own and its
            mirror image's: more accurate, at twice the cost.

    Args:
        channels: 1 or 3.
        image_size: See above.
        mean: Mean of each channel on the 0-255 scale, 0 if not given; travels with the weights.
        std: Standard deviation of each channel, 1 if not given.
    """

    feature_size: int
    conditioned_widths: tuple[int, ...] = ()
    pre_pool_layers: tuple[int, ...] = ()
    mirrored: bool = False
    pixel_mean: Tensor
    pixel_std: Tensor

    def __init__(
        self,
        channels: int = 3,
        image_size: int = 32,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.image_size = image_size
        mean, std = mean or [0.0] * channels, std or [1.0] * channels
        self.register_buffer("pixel_mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("pixel_std", torch.tensor(std)[:, None, None])

    @classmethod
    def from_config(cls, config: Any, channels: int, image_size: int) -> Self:
        """The backbone of a recipe whose [backbone] table is `config`."""
        raise NotImplementedError

    def initialise(self, config: Any, generator: torch.Generator) -> None:
        """Draws the initial weights; those that PyTorch drew stay unless a subclass does."""

    def preprocess(self, images: Tensor) -> Tensor:
        """What `embed` takes, from images of any size on the 0-255 scale, uint8 or float.

        (N, C, H, W) -> (N, C, image_size, image_size), normalised, channels last in memory.
        """
        x = square(images, self.image_size).permute(0, 2, 3, 1)
        # A row of pixels at a time, for loops over two or three channels are slow.
        mean, std = (v.flatten().repeat(self.image_size) for v in (self.pixel_mean, self.pixel_std))
        rows: Tensor = (x.flatten(2).to(mean.dtype) - mean) / std
        return rows.view(x.shape).permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)

    def load_pretrained(self) -> bool:
        """Fills in weights that are not kept in a model's file; False if there are none."""
        return False

    def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
        """(T*N, C, H, W) -> (T*N, D); `film` has an entry per conditioned layer."""
        raise NotImplementedError

    def forward(self, x: Tensor, film: Film | None = None) -> Tensor:
        """`embed`, under the name that PyTorch calls; see `mirrored`."""
        z = self.embed(x, film)
        if self.mirrored and not self.training:
            z = (z + self.embed(x.flip(-1), film)) / 2
        return z

    def embed_each(self, batches: Sequence[Tensor], film: Film | None = None) -> list[Tensor]:
        """Embeddings of batches of the same tasks, each batch normalised by itself in training."""
        return [self(x, film) for x in batches]


def build_backbone(config: BackboneConfig, channels: int, image_size: int) -> Backbone:
    """The backbone that a recipe names."""
    kind: type[Backbone] = BACKBONES.find(config.name)
    backbone = kind.from_config(config, channels, image_size)
    backbone.mirrored = config.mirrored
    return backbone
