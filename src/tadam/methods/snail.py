"""SNAIL: a sequence model that reads labelled images and answers the last (Mishra et al., 2018).

A Simple Neural Attentive Meta-Learner, ICLR 2018. A task is a sequence of pairs, embedding and
one-hot label, with a query and a zero label at its end (sec. 3). Convolutions over time alternate
with attention, both causal: Attention(64, 32), TC(128), Attention(256, 128), TC(128),
Attention(512, 256) and a linear layer to the K classes, read at the last step (sec. 5.1 and
appendix A). Images are embedded by Conv-4 and a linear layer to 64 numbers for Omniglot.

What the paper leaves open, or we do differently:

- The order of the labelled images. A convolution over time depends on it, so we sort them by a
  number computed from their pixels: effectively a random order, but the same however they come.
- The query of a sequence sees its own key and value, as every step does.
- Sequences of other lengths than in training are answered as they are; other numbers of classes
  cannot be, since labels are inputs.
- On mini-ImageNet the paper embeds by a residual network of its own with strong dropout, to 384
  numbers. Recipes use ResNet-12 and a linear layer to 384.
- The batch norms of the embedding use running statistics at test, so queries stay apart.

All queries of a task share one pass over its labelled images (`snail_blocks`); the authors have a
sequence for each query.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from tadam.config import Config, MethodConfig
from tadam.config.checks import require
from tadam.errors import UserError
from tadam.methods.base import InputSpec, Tasks, check_episode
from tadam.methods.snail_blocks import AttentionBlock, TCBlock
from tadam.methods.with_backbone import WithBackbone, installed_backbone
from tadam.metric import one_hot
from tadam.nn.backbone import Backbone
from tadam.registry import METHODS

#: Numbers that sort images stay below this, so that a float32 holds them exactly.
_PLACES = 2**24 - 3


@dataclass(frozen=True)
class SnailConfig(MethodConfig):
    """Settings of SNAIL."""

    name: str = "snail"
    embedding: int = 64
    """Length of an image's embedding in a sequence."""
    filters: int = 128
    """Channels that each convolution over time adds."""

    def __post_init__(self) -> None:
        for name in ("embedding", "filters"):
            value = getattr(self, name)
            require(1 <= value <= 4096, f"method.{name}", "between 1 and 4096", value)


@METHODS.register("snail", SnailConfig)
class Snail(WithBackbone):
    """An embedding, and a causal sequence model over embeddings and labels.

    Args:
        backbone: The feature extractor.
        way: Classes K of a task.
        steps: Length of a training sequence, the query included.
        embedding: Length of an embedding in a sequence.
        filters: Channels that each convolution over time adds.
    """

    def __init__(
        self, backbone: Backbone, way: int, steps: int, embedding: int = 64, filters: int = 128
    ) -> None:
        super().__init__(backbone)
        self.way = way
        self.projection = nn.Linear(backbone.feature_size, embedding)
        first = AttentionBlock(embedding + way, 64, 32)
        second = TCBlock(first.channels, steps, filters)
        third = AttentionBlock(second.channels, 256, 128)
        fourth = TCBlock(third.channels, steps, filters)
        fifth = AttentionBlock(fourth.channels, 512, 256)
        self.blocks = nn.ModuleList([first, second, third, fourth, fifth])
        self.output = nn.Linear(fifth.channels, way)

    @classmethod
    def from_config(cls, config: Config, spec: InputSpec) -> Self:
        """Builds a recipe's model."""
        method, episode = config.method, config.episode
        assert isinstance(method, SnailConfig)
        return cls(
            installed_backbone(config, spec),
            episode.way,
            episode.way * episode.shot + 1,
            method.embedding,
            method.filters,
        )

    def embed(self, images: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, D)."""
        return self.projection(super().embed(images))  # type: ignore[no-any-return]

    def forward(self, support: Tensor, labels: Tensor, query: Tensor, way: int) -> Tensor:
        """Logits (T, Q, K); see `Method.forward`."""
        check_episode(support, labels, query, way)
        images = torch.cat([support, query], dim=1)
        z = self.embed(images.flatten(0, 1)).unflatten(0, images.shape[:2])
        places = image_places(support.flatten(0, 1)).view(labels.shape)
        zs, zq = z.tensor_split([labels.shape[1]], dim=1)
        return self.read(zs, places, labels, zq, way)

    def read(self, z: Tensor, places: Tensor, labels: Tensor, zq: Tensor, way: int) -> Tensor:
        """Runs the sequences.

        Args:
            z: Support embeddings, (T, N, D).
            places: What sorts the support images, (T, N).
            labels: Their classes, (T, N).
            zq: Query embeddings, (T, Q, D).
            way: Number of classes K.

        Returns:
            Logits, (T, Q, K).
        """
        if way != self.way:
            raise UserError(
                f"this model was trained for tasks of {self.way} classes and takes their labels as "
                f"inputs, so it cannot answer tasks of {way}"
            )
        order = places.argsort(dim=1, stable=True)
        z = z.gather(1, order[:, :, None].expand_as(z))
        x = torch.cat([z, one_hot(labels.gather(1, order), way, z.dtype)], dim=-1)
        q = torch.cat([zq, zq.new_zeros(*zq.shape[:2], way)], dim=-1)
        for block in self.blocks:
            x, q = block(x, q)
        return self.output(q)  # type: ignore[no-any-return]

    # Evaluation: embeddings do not depend on the task

    def embed_once(self, images: Tensor) -> Tensor | None:
        """Embeddings and what sorts the images, (N, C, H, W) -> (N, D + 1)."""
        return torch.cat([self.embed(images), image_places(images)[:, None]], dim=1)

    def answer(self, tasks: Tasks, control: str = "") -> Tensor:
        """Logits, (T, Q, K)."""
        assert tasks.once is not None
        support, query = tasks.once
        return self.read(
            support[..., :-1], support[..., -1], tasks.labels, query[..., :-1], tasks.way
        )

    def images_embedded(self, images: int, in_tasks: int) -> int:
        """Each image once."""
        return images


def image_places(images: Tensor) -> Tensor:
    """A number computed from an image's pixels, (N, C, H, W) -> (N,), a whole number in float32.

    Integer arithmetic, so it is the same on every machine.
    """
    pixels = images.flatten(1).round().long() if images.is_floating_point() else images.flatten(1)
    factors = torch.arange(1, pixels.shape[1] + 1, device=images.device)
    factors = (factors * 40_503 + 12_345) % 65_521 + 1
    return ((pixels.long() * factors).sum(dim=1) * 7_919 % _PLACES).float()
