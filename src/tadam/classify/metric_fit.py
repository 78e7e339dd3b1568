"""Estimates the metric of a task from its support set, in closed form: docs/explain/metric.md.

One number is searched for, how much the covariance is shrunk towards the identity, and one that
follows it, the scale of the logits: both by the log loss of exact leave-one-out, with a prior that
a few dozen images outweigh.
"""

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tadam.classify.adaptive_metric import POWER, AdaptiveMetric
from tadam.classify.left_out import LeftOut, SupportScatter, leave_one_out
from tadam.classify.strangeness_limits import (
    Expected,
    background_of,
    known_strangeness,
    set_limits,
)
from tadam.system.threads import few_threads

#: Prior of the shrinkage kappa, in images: its median and the standard deviation of its logarithm.
#: All constants here were chosen on photos; docs/explain/metric.md has the figures.
KAPPA, _KAPPA_SPREAD = 1.0, 1.0
#: Share of the prototypes' mean that is subtracted before embeddings are scaled to length 1.
_CENTRED = 0.7
#: alpha is near _ALPHA_OF_ONE_SHOT * shots ** _ALPHA_GROWTH; standard deviation of its logarithm.
_ALPHA_OF_ONE_SHOT, _ALPHA_GROWTH, _ALPHA_SPREAD = 10.0, 0.75, 0.35
#: A left-out image has one shot less in its class than a predicted one, and wants a smaller alpha.
_LESS_SHOTS = 0.1
#: Numbers that leave-one-out may hold for a candidate; with more, some images are not left out.
_MOST_SCORES = 2**20


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


class MetricFit(NamedTuple):
    """All that a fit finds out.

    Attributes:
        metric: The metric of the task.
        expected: What to expect of its "none of these".
        left_out: What `left_out_answers` would say; None if there are too many images for the fit
            to leave out each.
    """

    metric: AdaptiveMetric
    expected: Expected
    left_out: LeftOutAnswers | None


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
    return fit_with_answers(z, labels, way, normalised, alpha)[:2]


def fit_with_answers(
    z: Tensor, labels: Tensor, way: int, normalised: bool = True, alpha: float | None = None
) -> MetricFit:
    """The same, with the answers for the support images, which the fit knows anyway."""
    with few_threads(len(z)):
        return _fitted(z.detach().cpu().double(), labels.cpu(), way, normalised, alpha)


def _fitted(
    z: Tensor, labels: Tensor, way: int, normalised: bool, alpha: float | None
) -> MetricFit:
    metric = _standardiser(z, labels, way, normalised)
    scatter = SupportScatter(metric.standardised(z), labels, way, metric.shift)
    shots = len(labels) / way
    near = alpha or _ALPHA_OF_ONE_SHOT * shots**_ALPHA_GROWTH
    every = left_out_rows(scatter, len(labels))
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
        metric.norms[None], products.lengths[None], scatter.counts[None], left_out.noise
    )[0]
    metric.background = background_of(products.cc, scatter.counts, kappa)
    expected = set_limits(metric, scatter, left_out, kappa)
    answers = _answers(metric, labels, [(rows, left_out)]) if len(rows) == len(every) else None
    return MetricFit(metric.float(), expected, answers)


def left_out_answers(metric: AdaptiveMetric, z: Tensor, labels: Tensor) -> LeftOutAnswers:
    """The answer for each support image as if it had not been in the support set.

    Args:
        metric: The one that `fit_metric` made of them.
        z: Support embeddings, (N, D).
        labels: Their classes, (N,).
    """
    metric = copy.deepcopy(metric).cpu().double()
    way, kappa = len(metric.weight), metric.shrinkage.item()
    scatter = SupportScatter(metric.standardised(z.double()), labels, way, metric.shift)
    some = left_out_rows(scatter, len(z)).split(max(1, _MOST_SCORES // way))
    return _answers(metric, labels, ((r, leave_one_out(scatter, r, kappa)) for r in some))


def _answers(
    metric: AdaptiveMetric, labels: Tensor, parts: Iterable[tuple[Tensor, LeftOut]]
) -> LeftOutAnswers:
    """What left-out images, here with their places, make of a metric in double precision."""
    probabilities = torch.full((len(labels), len(metric.weight)), math.nan)
    strangeness = torch.full((len(labels),), math.nan)
    for rows, left_out in parts:
        probabilities[rows] = (metric.alpha * left_out_logits(left_out)).softmax(1).float()
        strangeness[rows] = metric.on_scale(known_strangeness(metric, left_out)).float()
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


def left_out_logits(left_out: LeftOut) -> Tensor:
    """Logits with alpha 1 of images that were left out, (n, K)."""
    noise = left_out.noise
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
