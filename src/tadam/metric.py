"""Prototypes, distances and metric scaling: `softmax(-alpha * d(z, c_k))` (TADAM, sec. 2.1).

An alpha means something only together with its distance: the paper's alphas belong to the
unsquared Euclidean distance.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def one_hot(labels: Tensor, way: int, dtype: torch.dtype) -> Tensor:
    """1 at a label's place and 0 elsewhere, (...,) -> (..., K)."""
    # Not F.one_hot, which on some devices reads the labels and so waits for them.
    return (labels[..., None] == torch.arange(way, device=labels.device)).to(dtype)


def prototypes(z: Tensor, labels: Tensor, way: int) -> Tensor:
    """Mean embedding of each class; classes may have different numbers of shots.

    Args:
        z: Support embeddings, (T, N, D).
        labels: Class of each support image, (T, N), in 0..way-1.
        way: Number of classes K; each must have at least one image in each task.

    Returns:
        Prototypes, (T, K, D).
    """
    onehot = one_hot(labels, way, z.dtype)  # (T, N, K)
    counts = onehot.sum(dim=1)  # (T, K)
    return onehot.transpose(1, 2) @ z / counts[:, :, None]


def sqeuclidean(z: Tensor, c: Tensor) -> Tensor:
    """Squared Euclidean distance, (T, Q, D) and (T, K, D) -> (T, Q, K)."""
    # Differences first: |z|^2 + |c|^2 - 2zc loses half the digits when z is close to c.
    return (z[:, :, None] - c[:, None]).square().sum(dim=-1)


def euclidean(z: Tensor, c: Tensor) -> Tensor:
    """Euclidean distance, not squared, (T, Q, D) and (T, K, D) -> (T, Q, K)."""
    # The clamp gives a zero gradient, not an infinite one, where a query meets its prototype.
    return sqeuclidean(z, c).clamp_min(1e-12).sqrt()


def cosine(z: Tensor, c: Tensor) -> Tensor:
    """Squared distance of the unit vectors, `2 (1 - cos)`, (T, Q, D) and (T, K, D) -> (T, Q, K)."""
    return sqeuclidean(F.normalize(z, dim=-1), F.normalize(c, dim=-1))


DISTANCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "euclidean": euclidean,
    "sqeuclidean": sqeuclidean,
    "cosine": cosine,
}


class ScaledMetric(nn.Module):
    """Logits `-alpha * d(z, c_k)`.

    alpha is kept as its logarithm, so that it stays positive however it is learnt.

    Args:
        distance: A key of `DISTANCES`.
        alpha: Initial (or fixed) scale.
        learn_alpha: Whether alpha is a parameter (paper) or a buffer (authors' code).

    Attributes:
        distance_name: The key of `DISTANCES`.
        distance: The function behind it.
    """

    log_alpha: Tensor

    def __init__(
        self, distance: str = "euclidean", alpha: float = 1.0, learn_alpha: bool = False
    ) -> None:
        super().__init__()
        self.distance_name, self.distance = distance, DISTANCES[distance]
        log_alpha = torch.tensor(math.log(alpha))
        if learn_alpha:
            self.log_alpha = nn.Parameter(log_alpha)
        else:
            self.register_buffer("log_alpha", log_alpha)

    @property
    def alpha(self) -> Tensor:
        # The clamp keeps exp within float32, so alpha is positive and finite whatever is learnt.
        return self.log_alpha.clamp(-80, 80).exp()

    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        """(T, Q, D) queries and (T, K, D) prototypes -> (T, Q, K) logits."""
        return -self.alpha * self.distance(z, c)
