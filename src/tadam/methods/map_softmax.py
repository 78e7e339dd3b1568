"""Maximum-a-posteriori weights of a softmax classifier under a Gaussian prior, exactly, by task.

For each task, the W that minimises

    sum over n of -log softmax(W z_n)[y_n] + |W - mean|^2 / (2 variance).

It is strictly convex. At the minimum W = mean + A' Z with A = variance (Y - P), (N, K), where P are
the probabilities: the weights differ from the prior's mean only along the support embeddings, so
that the search is over A, whatever the number of features. Newton's method finds it; conjugate
gradients solve its equations without ever forming a Hessian. All tasks go at once, each with its
own step.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from tadam.metric import one_hot

#: Newton steps, conjugate gradient steps within one, and halvings of one; a few of each are usual.
_NEWTON, _GRADIENTS, _HALVINGS = 60, 500, 30
#: How exactly a Newton step is solved for, relative to where it starts.
_INNER = 1e-4


def map_weights(z: Tensor, labels: Tensor, way: int, mean: Tensor, variance: float) -> Tensor:
    """The most probable softmax weights of each task.

    Args:
        z: Support embeddings, (T, N, D).
        labels: Class of each, (T, N), in 0..way-1.
        way: Number of classes K.
        mean: The prior's mean, (D,) for all classes or (K, D).
        variance: The prior's variance in each direction.

    Returns:
        Weights, (T, K, D), in the precision of `z`.
    """
    exact = torch.float32 if z.device.type == "mps" else torch.float64
    features, prior = z.to(exact), mean.to(exact).expand(way, -1)
    problem = _Dual(features, one_hot(labels, way, exact), features @ prior.mT, variance)
    a = problem.solved()
    return (prior + a.mT @ features).to(z.dtype)


class _Dual:
    """The search for A, (T, N, K).

    Args:
        z: Support embeddings, (T, N, D).
        onehot: Their classes, (T, N, K).
        start: Their logits by the prior's mean, (T, N, K).
        variance: The prior's.
    """

    def __init__(self, z: Tensor, onehot: Tensor, start: Tensor, variance: float) -> None:
        self.gram, self.onehot, self.start, self.variance = z @ z.mT, onehot, start, variance
        self.tolerance = torch.finfo(z.dtype).eps ** 0.75

    def solved(self) -> Tensor:
        """A at the minimum."""
        a = torch.zeros_like(self.onehot)
        for _ in range(_NEWTON):
            p = (self.start + self.gram @ a).softmax(dim=-1)
            residual = self.onehot - p - a / self.variance
            if residual.abs().max() <= self.tolerance:
                break
            a = self._stepped(a, self._newton(p, residual), residual)
        return a

    def _objective(self, a: Tensor) -> Tensor:
        """What is minimised, for each task, (T,)."""
        moved = self.gram @ a
        fit = (self.onehot * F.log_softmax(self.start + moved, dim=-1)).sum(dim=(1, 2))
        return (a * moved).sum(dim=(1, 2)) / (2 * self.variance) - fit

    def _newton(self, p: Tensor, residual: Tensor) -> Tensor:
        """Solves (1 / variance + H G) d = residual; it is self-adjoint for <u, v> = u' G v."""
        d, r = torch.zeros_like(residual), residual
        direction, moved = r, self.gram @ r
        size = first = (r * moved).sum(dim=(1, 2), keepdim=True)
        for _ in range(_GRADIENTS):
            if (size <= _INNER**2 * first).all():
                break
            weighted = p * moved
            applied = direction / self.variance + weighted - p * weighted.sum(-1, keepdim=True)
            curvature = (applied * moved).sum(dim=(1, 2), keepdim=True)
            # A task that has converged stays where it is while others go on.
            step = torch.where(curvature > 0, size / curvature.clamp_min(1e-300), 0.0)
            d, r = d + step * direction, r - step * applied
            along = self.gram @ r
            before, size = size, (r * along).sum(dim=(1, 2), keepdim=True).clamp_min(0)
            turn = torch.where(before > 0, size / before.clamp_min(1e-300), 0.0)
            direction, moved = r + turn * direction, along + turn * moved
        return d

    def _stepped(self, a: Tensor, d: Tensor, residual: Tensor) -> Tensor:
        """A after a step along d, halved for each task until the objective falls enough."""
        now, slope = self._objective(a), ((self.gram @ residual) * d).sum(dim=(1, 2))
        step = torch.ones_like(now)
        for _ in range(_HALVINGS):
            then = self._objective(a + step[:, None, None] * d)
            # Near the minimum the fall is lost in rounding; then the whole step is right.
            enough = then <= now - 1e-4 * step * slope + self.tolerance * now.abs()
            if enough.all():
                break
            step = torch.where(enough, step, step / 2)
        return a + step[:, None, None] * d
