"""Discriminative k-shot learning by probabilistic models (Bauer et al., 2017, arXiv:1706.00326).

1. A network learns to classify all training classes. Its last layer is a softmax with a weight
   vector for each class.
2. A Gaussian is fitted to these vectors: p(w) = N(w | mean, variance I), the isotropic one
   that the paper's published figures on mini-ImageNet belong to.
3. A new task gets the most probable weights given its support set, with the features frozen: the
   minimum of the cross-entropy, summed over the support images, plus |w - mean|^2 / (2 variance)
   for each class. The problem is convex and `map_softmax` solves it to rounding error.
4. Queries are classified by softmax(W z).

One mean for all classes adds the same number to all logits of an image and so cancels: the variance
alone decides. In effect this is logistic regression whose penalty was learnt from the training
classes instead of tuned. The solver takes any mean, and the tests use one that does not cancel.

Decisions of ours: no biases, so that the prior is about weights alone; maximum likelihood for mean
and variance, over all weights; `prior_scale` multiplies the variance, 1 being the paper's. Left
out: averaging over samples of the posterior instead of its maximum, and other priors. The authors'
network is a ResNet-34 with fewer features; ours is named beside each number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from tadam.config import Config, MethodConfig
from tadam.config.checks import require
from tadam.methods.base import InputSpec, Tasks, Update, check_episode
from tadam.methods.map_softmax import map_weights
from tadam.methods.with_backbone import WithBackbone, installed_backbone
from tadam.nn.backbone import Backbone
from tadam.registry import METHODS


@dataclass(frozen=True)
class KshotConfig(MethodConfig):
    """Settings of discriminative k-shot learning."""

    name: str = "kshot"
    batch_size: int = 128
    """Images of all training classes in a training step."""
    prior_scale: float = 1.0
    """Factor on the variance that is fitted to the training classes' weights."""

    def __post_init__(self) -> None:
        require(self.batch_size >= 2, "method.batch_size", "at least 2", self.batch_size)
        ok = 0 < self.prior_scale < 1e9
        require(ok, "method.prior_scale", "above 0 and below 1e9", self.prior_scale)

    def has_class_head(self, config: Config) -> bool:
        """It is trained on all training classes at once."""
        return True


@METHODS.register("kshot", KshotConfig)
class Kshot(WithBackbone):
    """A classifier of the training classes whose weights are the prior of every other's.

    Args:
        backbone: The feature extractor.
        classes: Number of training classes.
        prior_scale: See `KshotConfig`.
    """

    def __init__(self, backbone: Backbone, classes: int, prior_scale: float = 1.0) -> None:
        super().__init__(backbone)
        self.class_head = nn.Linear(backbone.feature_size, classes, bias=False)
        self._prior_scale = prior_scale

    @classmethod
    def from_config(cls, config: Config, spec: InputSpec) -> Self:
        """Builds a recipe's model."""
        assert isinstance(config.method, KshotConfig)
        backbone = installed_backbone(config, spec)
        return cls(backbone, spec.auxiliary_classes, config.method.prior_scale)

    def initialise_rest(self, config: Config, generator: torch.Generator) -> None:
        """Draws the softmax weights."""
        nn.init.xavier_uniform_(self.class_head.weight, generator=generator)

    # Training

    def class_logits(self, images: Tensor) -> Tensor:
        """Logits over all training classes, (B, C, H, W) -> (B, classes)."""
        return self.class_head(self.embed(images))  # type: ignore[no-any-return]

    def updates(self, config: Config) -> Sequence[Update]:
        """One update, on a batch of images; `method.batch_size` is what its name says in errors."""
        assert isinstance(config.method, KshotConfig)
        return [Update("method", self.class_logits, images=config.method.batch_size)]

    def logged_at_validation(self) -> Mapping[str, Any]:
        """How far the training classes' weights spread."""
        return {"prior_deviation": self.prior()[1] ** 0.5}

    # Answering

    def prior(self) -> tuple[Tensor, float]:
        """Mean, (D,), and variance of the softmax weights."""
        weight = self.class_head.weight.detach()
        mean = weight.mean(dim=0)
        return mean, self._prior_scale * (weight - mean).square().mean().item()

    def compare(self, z: Tensor, labels: Tensor, zq: Tensor, way: int) -> Tensor:
        """Support (T, N, D) and query embeddings (T, Q, D) -> logits (T, Q, K)."""
        weights = map_weights(z.detach(), labels, way, *self.prior())
        return zq @ weights.mT

    def forward(self, support: Tensor, labels: Tensor, query: Tensor, way: int) -> Tensor:
        """Logits (T, Q, K); see `Method.forward`."""
        check_episode(support, labels, query, way)
        z, zq = (self.embed(x.flatten(0, 1)).unflatten(0, x.shape[:2]) for x in (support, query))
        return self.compare(z, labels, zq, way)

    def embed_once(self, images: Tensor) -> Tensor | None:
        """The features, which no task changes, (N, C, H, W) -> (N, D)."""
        return self.embed(images)

    def answer(self, tasks: Tasks, control: str = "") -> Tensor:
        """Logits (T, Q, K) from the features."""
        assert tasks.once is not None
        return self.compare(tasks.once[0], tasks.labels, tasks.once[1], tasks.way)

    def images_embedded(self, images: int, in_tasks: int) -> int:
        """Each image once."""
        return images

    def as_embedding(self) -> tuple[Backbone, str] | None:
        """The backbone: a classifier of photos has a penalty of its own to estimate from them.

        Products with weights say more about directions than about lengths, hence the cosine.
        """
        return self.backbone, "cosine"
