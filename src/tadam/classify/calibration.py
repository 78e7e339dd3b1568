"""Probabilities to trust, and "none of these": both learnt from the support set alone.

A support image is classified as if it were new: against its class's prototype without it. These
leave-one-out answers show how sure the classifier may be, and how far from a prototype an image of
a known class lies.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tadam.metric import DISTANCES

#: Standard deviation of the prior on log alpha around the trained one. Chosen with `KEPT` on
#: FC100's validation classes; docs/trust.md has the numbers.
PRIOR_SPREAD = 0.35
#: alpha stays within this factor of the trained one.
_MOST_CHANGE = 1000.0
#: Share of the left-out support images that the threshold lets pass.
KEPT = 0.95
#: Elements of the differences between embeddings and prototypes that are held at once.
_ELEMENTS = 2**24


@dataclass(frozen=True)
class LeftOut:
    """Support images whose class has others too, classified as if they were new.

    Attributes:
        distances: To each prototype, the own one taken without the image, (N', K).
        labels: Their classes, (N',).
    """

    distances: Tensor
    labels: Tensor


def distances_to(z: Tensor, c: Tensor, distance: str) -> Tensor:
    """(N, D) and (K, D) -> (N, K), however many there are."""
    rows = max(1, _ELEMENTS // c.numel())
    return torch.cat([DISTANCES[distance](part[None], c[None])[0] for part in z.split(rows)])


def leave_one_out(z: Tensor, labels: Tensor, c: Tensor, distance: str) -> LeftOut:
    """Classifies each support image as if it were not in the support set.

    Args:
        z: Support embeddings, (N, D).
        labels: Their classes, (N,), in 0..K-1.
        c: Their prototypes, (K, D).
        distance: A key of `DISTANCES`.
    """
    counts = torch.bincount(labels, minlength=len(c))
    alone = counts[labels] < 2
    z, labels = z[~alone], labels[~alone]
    if not len(z):
        return LeftOut(z.new_zeros(0, len(c)), labels)
    n = counts[labels][:, None].to(z.dtype)
    without = (n * c[labels] - z) / (n - 1)  # the mean of the others, (N', D)
    found = distances_to(z, c, distance)
    own = DISTANCES[distance](z[:, None], without[:, None])[:, 0, 0]
    return LeftOut(found.scatter(1, labels[:, None], own[:, None]), labels)


def calibrated_alpha(left_out: LeftOut, trained: float) -> float:
    """The scale under which the leave-one-out answers have the least log loss.

    Few images, all of them right, would send it to infinity: so a normal prior on log alpha around
    the trained one is added, which a few dozen images outweigh. With one shot in every class
    nothing can be left out, and the trained alpha stays.
    """
    if not len(left_out.labels):
        return trained
    distances = left_out.distances.cpu().double()
    own = distances.gather(1, left_out.labels.cpu()[:, None])

    def loss(log_alpha: Tensor) -> Tensor:
        """Losses for each candidate alpha, (A,)."""
        fit = torch.zeros_like(log_alpha)
        for part in (distances - own).split(
            max(1, _ELEMENTS // (len(log_alpha) * distances.shape[1]))
        ):
            scaled = -log_alpha.exp()[:, None, None] * part  # (A, n, K)
            fit += scaled.logsumexp(dim=2).sum(dim=1)
        return fit + (log_alpha - math.log(trained)) ** 2 / (2 * PRIOR_SPREAD**2)

    low, high = (math.log(trained) + sign * math.log(_MOST_CHANGE) for sign in (-1, 1))
    for _ in range(4):  # each round keeps the grid's best point and its two neighbours
        grid = torch.linspace(low, high, 25, dtype=torch.float64)
        best = grid[loss(grid).argmin()].item()
        step = (high - low) / 24
        low, high = max(low, best - step), min(high, best + step)
    return math.exp(best)


def rejection_threshold(z: Tensor, labels: Tensor, c: Tensor) -> float:
    """The cosine distance from the nearest prototype beyond which an image belongs to no class.

    Most support images, left out, are nearer than that. With one shot in every class it is the
    distance between the most isolated prototype and the one nearest to it.

    Args:
        z: Support embeddings, (N, D).
        labels: Their classes, (N,), in 0..K-1.
        c: Their prototypes, (K, D).
    """
    left_out = leave_one_out(z, labels, c, "cosine")
    if len(left_out.labels):
        return torch.quantile(left_out.distances.amin(dim=1), KEPT).item()
    between = distances_to(c, c, "cosine").fill_diagonal_(math.inf)
    return between.amin(dim=1).max().item()
