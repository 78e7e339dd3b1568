"""The metric of one task, as it predicts: embeddings in, probabilities and strangeness out.

A class is a Gaussian around its prototype c_k; all classes share one covariance, which
`metric_fit` estimates from the support set. With the quadratic term, the same for every class, left
out, a class's score is linear in the embedding: one matrix product, however the metric came about.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

#: Exponent for features that are never negative. These are means of a ReLU, whose few large values
#: say too much otherwise. Chosen on photos: docs/metric.md.
POWER = 0.7


class AdaptiveMetric(nn.Module):
    """Scores, probabilities and strangeness of embeddings, (N, D), among K classes.

    Args:
        way: Number of classes K.
        features: Length D of an embedding.
        power: Exponent that features are raised to; 1 leaves them as they are.
        normalised: Whether embeddings are scaled to length 1 once they are centred.

    Attributes:
        centre: What is subtracted from an embedding, (D,).
        radius: What a centred embedding is divided by unless it is `normalised`.
        shift: What is subtracted after that, so that the prototypes have the mean 0, (D,).
        weight: Prototypes times the inverse covariance, (K, D).
        bias: Added to the scores before they become logits, (K,).
        norms: Squared length of each prototype under the inverse covariance, (K,).
        background: Quadratic form in the scores: how well an image fits no class in particular,
            (K, K).
        alpha: Scale of the logits.
        shrinkage: Weight of the isotropic prior in the covariance, in images.
        typical: Raw strangeness of a typical image of the classes.
        limit: Raw strangeness beyond which an image belongs to none of them.
        knows_strangers: Whether `strangeness` says anything.
    """

    knows_strangers: ClassVar[bool] = True
    centre: Tensor
    radius: Tensor
    shift: Tensor
    weight: Tensor
    bias: Tensor
    norms: Tensor
    background: Tensor
    alpha: Tensor
    shrinkage: Tensor
    typical: Tensor
    limit: Tensor

    def __init__(
        self, way: int, features: int, *, power: float = 1.0, normalised: bool = True
    ) -> None:
        super().__init__()
        self.power, self.normalised = power, normalised
        for name in ("centre", "shift"):
            self.register_buffer(name, torch.zeros(features))
        self.register_buffer("weight", torch.zeros(way, features))
        for name in ("bias", "norms"):
            self.register_buffer(name, torch.zeros(way))
        self.register_buffer("background", torch.zeros(way, way))
        for name in ("radius", "alpha", "shrinkage", "limit"):
            self.register_buffer(name, torch.tensor(1.0))
        self.register_buffer("typical", torch.tensor(0.0))

    def powered(self, z: Tensor) -> Tensor:
        """Features raised to `power`, (N, D)."""
        return z if self.power == 1 else z.clamp_min(0) ** self.power

    def standardised(self, z: Tensor) -> Tensor:
        """Embeddings as the metric compares them: powered, centred, of one length, (N, D)."""
        y = self.powered(z) - self.centre
        return (F.normalize(y, dim=-1) if self.normalised else y / self.radius) - self.shift

    def scores(self, z: Tensor) -> Tensor:
        """Inner product with each prototype under the inverse covariance, (N, K)."""
        return self.standardised(z) @ self.weight.T

    def probabilities(self, z: Tensor) -> Tensor:
        """Softmax of alpha times the scores and their biases, (N, K)."""
        return self.probabilities_of(self.scores(z))

    def probabilities_of(self, scores: Tensor) -> Tensor:
        """The same of scores, (N, K)."""
        return (self.alpha * (scores + self.bias)).softmax(dim=-1)

    def strangeness(self, z: Tensor) -> Tensor:
        """How little an image looks like any class, (N,): 0 is typical of them, 1 is the limit."""
        return self.strangeness_of(self.scores(z))

    def strangeness_of(self, scores: Tensor) -> Tensor:
        """The same of scores, (N, K)."""
        fit = (scores @ self.background * scores).sum(dim=-1)
        return self.on_scale(raw_strangeness(scores, self.norms, fit, self.alpha))

    def on_scale(self, raw: Tensor) -> Tensor:
        """Raw strangeness on the scale of `strangeness`, (N,)."""
        return (raw - self.typical) / (self.limit - self.typical)


def raw_strangeness(scores: Tensor, norms: Tensor, fit: Tensor, alpha: Tensor) -> Tensor:
    """Squared distance from the nearest classes less that from a Gaussian over all of them, (N,).

    Both halved. This is the relative Mahalanobis distance (Ren et al., 2021, arXiv 2106.09022)
    with a soft minimum over the classes. The terms that the two distances share cancel, and what is
    left depends on the scores alone.

    Args:
        scores: (N, K).
        norms: As in `AdaptiveMetric`, (K,) or (N, K).
        fit: The quadratic form `background` of the scores, (N,).
        alpha: Sharpness of the minimum.
    """
    nearest = (alpha * (scores - norms / 2)).logsumexp(dim=-1) / alpha
    return fit / 2 - nearest
