"""Where "none of these" begins: strangeness of images and classes that are left out in turn.

The images that are left out say how strange known images are; whole classes that are left out say
it of images of no class.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tadam.classify.adaptive_metric import AdaptiveMetric, raw_strangeness
from tadam.classify.left_out import LeftOut, SupportScatter, leave_class_out

#: How much of the scatter between classes the background Gaussian of strangeness has.
_BACKGROUND = 0.2
#: Share of left-out images that are less strange than the limit.
KEPT = 0.95
#: With one shot in every class: the share of simulated unknown images that are less strange than
#: the limit, and than what counts as typical.
_KEPT_UNKNOWN, _TYPICAL_UNKNOWN = 0.8, 0.2
#: Least difference between the two: less would show the rounding of single precision.
_LEAST_WIDTH = 2e-3
#: Classes that are left out in turn, at most.
_MOST_CLASSES = 32


@dataclass(frozen=True)
class Expected:
    """What the support set says about "none of these".

    Attributes:
        kept: Share of left-out images that are not rejected; None with one shot in every class.
        caught: Share of images that are rejected when their class is left out.
        auroc: Probability that an image whose class is left out is stranger than one that is left
            out alone; None with one shot in every class.
    """

    kept: float | None
    caught: float
    auroc: float | None


def set_limits(
    metric: AdaptiveMetric, scatter: SupportScatter, left_out: LeftOut, kappa: float
) -> Expected:
    """Where strangeness is 0 and 1: from images left out, or from classes if none can be."""
    unknown = _unknown_strangeness(metric, scatter, kappa)
    known, shares = unknown, (_TYPICAL_UNKNOWN, _KEPT_UNKNOWN)
    if len(left_out.labels):
        known, shares = known_strangeness(metric, left_out), (0.5, KEPT)
    typical, limit = (torch.quantile(known, share) for share in shares)
    metric.typical, metric.limit = typical, typical + (limit - typical).clamp_min(_LEAST_WIDTH)
    caught = float((unknown > metric.limit).double().mean())
    if not len(left_out.labels):
        return Expected(None, caught, None)
    above = torch.searchsorted(known.sort().values, unknown).double().mean() / len(known)
    return Expected(float((known <= metric.limit).double().mean()), caught, float(above))


def known_strangeness(metric: AdaptiveMetric, left_out: LeftOut) -> Tensor:
    """Raw strangeness of left-out images, had their prototype not lost one of few, (n,).

    A prototype of n images is noise / n from the mean of its class, so one more brings it nearer.
    """
    rows = torch.arange(len(left_out.labels))
    n = left_out.counts[rows, left_out.labels]  # without the image
    # The background without the image, by Woodbury: its prior changes, and its products.
    change = left_out.change.clone()
    change[:, 1, 1] += metric.shrinkage / (_BACKGROUND * n * (n + 1))
    turned = metric.background @ left_out.frame  # (n, K, 3)
    core = torch.eye(3, dtype=n.dtype) + change @ left_out.frame.mT @ turned
    along = (left_out.scores[:, None] @ turned).mT  # (n, 3, 1)
    less = (along * torch.linalg.solve(core, change @ along)).sum(dim=(1, 2))
    fit = (left_out.scores @ metric.background * left_out.scores).sum(dim=1) - less
    scores = left_out.scores.clone()
    scores[rows, left_out.labels] += left_out.noise / (2 * n * (n + 1))
    return raw_strangeness(scores, left_out.norms, fit, metric.alpha)


def _unknown_strangeness(metric: AdaptiveMetric, scatter: SupportScatter, kappa: float) -> Tensor:
    """Raw strangeness of images whose class is left out: they stand for those of no class, (n,)."""
    way, found = len(scatter.counts), []
    for k in torch.linspace(0, way - 1, min(way, _MOST_CLASSES)).long().tolist():
        others, scores, products = leave_class_out(scatter, k, kappa)
        background = background_of(products, scatter.counts[others], kappa)
        fit = (scores @ background * scores).sum(dim=1)
        found.append(raw_strangeness(scores, products.diagonal(), fit, metric.alpha))
    return torch.cat(found)


def background_of(products: Tensor, counts: Tensor, kappa: float) -> Tensor:
    """How scores show the fit to one Gaussian over all classes, (K, K).

    Its covariance is that within classes and a share of that between them, sum of n_k c_k c_k'. By
    Woodbury, what distinguishes the two inverses is a quadratic form in the scores.

    Args:
        products: Of the prototypes under the inverse covariance, (K, K).
        counts: Images of each class, (K,).
        kappa: The shrinkage.
    """
    inverse: Tensor = torch.linalg.inv(torch.diag(kappa / (_BACKGROUND * counts)) + products)
    return inverse
