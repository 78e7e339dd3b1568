"""Estimates the metric of a task from its support set, in closed form; docs/metric.md explains it.

One number is searched for, how much the covariance is shrunk towards the identity, and one that
follows it, the scale of the logits: both by the log loss of exact leave-one-out, with a prior that
a few dozen images outweigh.
"""

import copy
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tadam.classify.adaptive_metric import POWER, AdaptiveMetric, raw_strangeness
from tadam.classify.left_out import LeftOut, SupportScatter, leave_class_out, leave_one_out
from tadam.system.threads import few_threads

#: Prior of the shrinkage kappa, in images: its median and the standard deviation of its logarithm.
#: All constants here were chosen on photos; docs/metric.md has the figures.
KAPPA, _KAPPA_SPREAD = 1.0, 1.0
#: Share of the prototypes' mean that is subtracted before embeddings are scaled to length 1.
_CENTRED = 0.7
#: alpha is near _ALPHA_OF_ONE_SHOT * shots ** _ALPHA_GROWTH; standard deviation of its logarithm.
_ALPHA_OF_ONE_SHOT, _ALPHA_GROWTH, _ALPHA_SPREAD = 10.0, 0.75, 0.35
#: A left-out image has one shot less in its class than a predicted one, and wants a smaller alpha.
_LESS_SHOTS = 0.1
#: How much of the scatter between classes the background Gaussian of strangeness has.
_BACKGROUND = 0.2
#: Share of left-out images that are less strange than the limit.
KEPT = 0.95
#: With one shot in every class: the share of simulated unknown images that are less strange than
#: the limit, and than what counts as typical.
_KEPT_UNKNOWN, _TYPICAL_UNKNOWN = 0.8, 0.2
#: Least difference between the two: less would show the rounding of single precision.
_LEAST_WIDTH = 2e-3
#: Numbers that leave-one-out may hold for a candidate; with more, some images are not left out.
_MOST_SCORES = 2**20
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


def fit_metric(
    z: Tensor,
    labels: Tensor,
    way: int,
    *,
    normalised: bool = True,
    alpha: float | None = None,
) -> tuple[AdaptiveMetric, Expected]:
    """The metric of a task, and what to expect of its "none of these".

    Args:
        z: Support embeddings, (N, D).
        labels: Their classes, (N,), in 0..way-1; each has at least one image.
        way: Number of classes K.
        normalised: Whether only the direction of a centred embedding counts.
        alpha: Scale of the logits; None to estimate it.
    """
    with few_threads(len(z)):
        return _fitted(z.detach().cpu().double(), labels.cpu(), way, normalised, alpha)


def _fitted(
    z: Tensor, labels: Tensor, way: int, normalised: bool, alpha: float | None
) -> tuple[AdaptiveMetric, Expected]:
    metric = _standardiser(z, labels, way, normalised)
    scatter = SupportScatter(metric.standardised(z), labels, way, metric.shift)
    shots = len(labels) / way
    near = alpha or _ALPHA_OF_ONE_SHOT * shots**_ALPHA_GROWTH
    rows = left_out_rows(scatter, _MOST_SCORES // way)
    kappa, found = _shrinkage(scatter, rows, near, fixed=alpha is not None)
    less = (shots / (shots - 1)) ** _LESS_SHOTS if shots > 1 and alpha is None else 1.0
    left_out = leave_one_out(scatter, rows, kappa)
    products = scatter.products(rows[:0], kappa)
    metric.shrinkage.fill_(kappa)
    metric.alpha.fill_(found * less)
    metric.weight = scatter.weight(kappa)
    metric.norms = products.cc.diagonal().clone()
    metric.bias = biases(
        metric.norms[None], products.lengths[None], scatter.counts[None], _noise(left_out)
    )[0]
    metric.background = _background(products.cc, scatter.counts, kappa)
    expected = _set_limits(metric, scatter, left_out, kappa)
    return metric.float(), expected


@dataclass(frozen=True)
class LeftOutAnswers:
    """What the metric says of each support image without it.

    Attributes:
        labels: Their classes, (N,).
        probabilities: (N, K); NaN for an image that is alone in its class.
        strangeness: (N,); NaN too.
    """

    labels: npt.NDArray[np.int64]
    probabilities: npt.NDArray[np.float32]
    strangeness: npt.NDArray[np.float32]


def left_out_answers(metric: AdaptiveMetric, z: Tensor, labels: Tensor) -> LeftOutAnswers:
    """The answer for each support image as if it had not been in the support set.

    Args:
        metric: The one that `fit_metric` made of them.
        z: Support embeddings, (N, D).
        labels: Their classes, (N,).
    """
    metric = copy.deepcopy(metric).cpu().double()
    way = len(metric.weight)
    scatter = SupportScatter(metric.standardised(z.double()), labels, way, metric.shift)
    probabilities = torch.full((len(z), way), math.nan)
    strangeness = torch.full((len(z),), math.nan)
    for rows in left_out_rows(scatter, len(z)).split(max(1, _MOST_SCORES // way)):
        left_out = leave_one_out(scatter, rows, metric.shrinkage.item())
        probabilities[rows] = (metric.alpha * left_out_logits(left_out)).softmax(1).float()
        strangeness[rows] = metric.on_scale(_known_strangeness(metric, left_out)).float()
    return LeftOutAnswers(labels.numpy(), probabilities.numpy(), strangeness.numpy())


def _standardiser(z: Tensor, labels: Tensor, way: int, normalised: bool) -> AdaptiveMetric:
    """A metric of which only the treatment of embeddings is settled."""
    power = POWER if normalised and bool((z >= 0).all()) else 1.0
    metric = AdaptiveMetric(way, z.shape[1], power=power, normalised=normalised).double()
    powered = metric.powered(z)
    # Each class counts the same, however many images it has.
    shares = 1 / (torch.bincount(labels, minlength=way).double() * way)[labels]
    metric.centre = _CENTRED * (shares @ powered)
    if not normalised:
        length = (powered - metric.centre).square().sum(1).mean().sqrt()
        metric.radius = length if length > 0 else torch.ones_like(length)
    metric.shift = shares @ metric.standardised(z)
    return metric


def left_out_rows(scatter: SupportScatter, most: int) -> Tensor:
    """Images that can be left out, as their classes have others; at most so many, evenly chosen."""
    rows = (scatter.counts[scatter.labels] > 1).nonzero()[:, 0]
    if len(rows) > most:
        rows = rows[torch.linspace(0, len(rows) - 1, most).long()]
    return rows


def biases(norms: Tensor, lengths: Tensor, counts: Tensor, noise: Tensor) -> Tensor:
    """What is added to the scores of each class, (n, K).

    For a Gaussian it is minus half the norm of the mean. A prototype's norm exceeds it by
    noise / n_k, which goes. With few images the length of a prototype is mostly chance: two that
    happen to be alike make a long one, which attracts less. So its difference from the mean length
    goes too: all of it with one image, half with two, a fifth with five.

    Args:
        norms: Of the prototypes, (n, K).
        lengths: The same without the shift, (n, K).
        counts: Images of each class, (n, K).
        noise: Mean squared distance of an image from the mean of its class.
    """
    fair = lengths - noise / counts
    chance = (fair - fair.mean(dim=1, keepdim=True)) / counts
    return (noise / counts + chance - norms) / 2


def _noise(left_out: LeftOut) -> Tensor:
    """Mean squared distance of an image from the mean of its class, from those left out."""
    if not len(left_out.labels):
        return left_out.own.new_tensor(0.0)
    n = left_out.counts.gather(1, left_out.labels[:, None])[:, 0]  # without the image
    return (left_out.own * n / (n + 1)).mean()


def left_out_logits(left_out: LeftOut) -> Tensor:
    """Logits with alpha 1 of images that were left out, (n, K)."""
    noise = _noise(left_out)
    return left_out.scores + biases(left_out.norms, left_out.lengths, left_out.counts, noise)


def _shrinkage(
    scatter: SupportScatter, rows: Tensor, near: float, fixed: bool
) -> tuple[float, float]:
    """kappa and alpha with the least log loss of leave-one-out, and their priors."""
    if not len(rows):
        return KAPPA, near
    # The largest is as good as infinite: then the metric is the distance to the prototypes.
    largest = math.ceil(math.log2(max(64, 4 * len(scatter.labels))))
    best, alpha = (math.inf, KAPPA, near), near
    for exponent in range(-6, largest + 1):
        kappa = 2.0**exponent
        left_out = leave_one_out(scatter, rows, kappa)
        loss = _AlphaLoss(left_out_logits(left_out), left_out.labels, near)
        alpha = near if fixed else loss.minimise(alpha)
        prior = math.log(kappa / KAPPA) ** 2 / (2 * _KAPPA_SPREAD**2)
        best = min(best, (loss(alpha) + prior, kappa, alpha))
    return best[1], best[2]


class _AlphaLoss:
    """Log loss of images that were left out, and the prior, as a function of alpha."""

    def __init__(self, logits: Tensor, labels: Tensor, near: float) -> None:
        self.behind = logits - logits.gather(1, labels[:, None])  # 0 for the own class
        self.near = near

    def __call__(self, alpha: float) -> float:
        prior = math.log(alpha / self.near) ** 2 / (2 * _ALPHA_SPREAD**2)
        return float((alpha * self.behind).logsumexp(1).sum()) + prior

    def minimise(self, alpha: float) -> float:
        """Walks downhill from an alpha that is near, in ever smaller steps."""
        here, factor = self(alpha), 1.5
        while factor > 1.01:
            value, other = min((self(a), a) for a in (alpha * factor, alpha / factor))
            if value < here:
                here, alpha = value, other
            else:
                factor = math.sqrt(factor)
        return alpha


def _set_limits(
    metric: AdaptiveMetric, scatter: SupportScatter, left_out: LeftOut, kappa: float
) -> Expected:
    """Where strangeness is 0 and 1: from images left out, or from classes if none can be."""
    unknown = _unknown_strangeness(metric, scatter, kappa)
    known, shares = unknown, (_TYPICAL_UNKNOWN, _KEPT_UNKNOWN)
    if len(left_out.labels):
        known, shares = _known_strangeness(metric, left_out), (0.5, KEPT)
    typical, limit = (torch.quantile(known, share) for share in shares)
    metric.typical, metric.limit = typical, typical + (limit - typical).clamp_min(_LEAST_WIDTH)
    caught = float((unknown > metric.limit).double().mean())
    if not len(left_out.labels):
        return Expected(None, caught, None)
    above = torch.searchsorted(known.sort().values, unknown).double().mean() / len(known)
    return Expected(float((known <= metric.limit).double().mean()), caught, float(above))


def _known_strangeness(metric: AdaptiveMetric, left_out: LeftOut) -> Tensor:
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
    scores[rows, left_out.labels] += _noise(left_out) / (2 * n * (n + 1))
    return raw_strangeness(scores, left_out.norms, fit, metric.alpha)


def _unknown_strangeness(metric: AdaptiveMetric, scatter: SupportScatter, kappa: float) -> Tensor:
    """Raw strangeness of images whose class is left out: they stand for those of no class, (n,)."""
    way, found = len(scatter.counts), []
    for k in torch.linspace(0, way - 1, min(way, _MOST_CLASSES)).long().tolist():
        others, scores, products = leave_class_out(scatter, k, kappa)
        background = _background(products, scatter.counts[others], kappa)
        fit = (scores @ background * scores).sum(dim=1)
        found.append(raw_strangeness(scores, products.diagonal(), fit, metric.alpha))
    return torch.cat(found)


def _background(products: Tensor, counts: Tensor, kappa: float) -> Tensor:
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
