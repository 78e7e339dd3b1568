"""Lemma 1 in numbers: the gradient of the scaled loss at both ends of alpha (TADAM, eq. 1-4).

As alpha -> 0, a query is pulled towards its own prototype and pushed equally from all others; as
alpha -> inf, only wrongly assigned queries move, away from the prototype nearest to them. A small
random network stands in for f_phi; its gradient is compared with both limits over many alphas.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tadam.errors import UserError
from tadam.metric import DISTANCES, prototypes
from tadam.reproduce.origin import Origin

#: 1e-4 to 1e4, two values per factor of ten.
LEMMA1_ALPHAS = tuple(10.0 ** (exponent / 2) for exponent in range(-8, 9))

_INPUTS, _HIDDEN, _FEATURES = 6, 16, 5
_CANDIDATES = 400  # queries per class to choose from
_NOISE = 1.5  # spread of a class, in units of the spread of class centres


@dataclass(frozen=True)
class Lemma1Result:
    """How far the alpha-normalised gradient is from each limit, for every alpha.

    An error is the relative L2 difference `|g_k - limit_k| / |limit_k|` of the gradients of J_k
    with respect to phi, for the class k where it is largest.

    Attributes:
        distance: A key of `tadam.metric.DISTANCES`.
        wrong: How many of a class's queries are nearest to another class's prototype.
        smallest_gap: Smallest gap between a query's two nearest prototypes (assumption A1).
        alphas: Ascending.
        error_to_small_limit: Error to eq. 3, one per alpha.
        error_to_large_limit: Error to eq. 4, one per alpha.
        gradient_norm: L2 norm of the gradients of all J_k together, divided by alpha.
        small_limit_norm: The same for eq. 3.
        large_limit_norm: The same for eq. 4.
        origin: See `tadam.reproduce.origin`; that of all distances together.
    """

    distance: str
    seed: int
    way: int
    shot: int
    queries: int
    wrong: int
    smallest_gap: float
    alphas: tuple[float, ...]
    error_to_small_limit: tuple[float, ...]
    error_to_large_limit: tuple[float, ...]
    gradient_norm: tuple[float, ...]
    small_limit_norm: float
    large_limit_norm: float
    origin: Origin = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        return asdict(self)


def class_losses(d: Tensor, labels: Tensor, alpha: float) -> Tensor:
    """Eq. 1: `J_k = sum_i alpha d_ik + log sum_j exp(-alpha d_ij)`, (Q, K) and (Q,) -> (K,)."""
    loss = F.cross_entropy(-alpha * d, labels, reduction="none")
    return F.one_hot(labels, d.shape[1]).to(d.dtype).T @ loss


def small_limit(d: Tensor, labels: Tensor) -> Tensor:
    """Has eq. 3 as its gradient: `sum_i (K-1)/K d_ik - 1/K sum_{j != k} d_ij`, (K,)."""
    way = d.shape[1]
    own = F.one_hot(labels, way).to(d.dtype)
    weights = own * (way - 1) / way - (1 - own) / way
    return own.T @ (weights * d).sum(dim=1)


def large_limit(d: Tensor, labels: Tensor) -> Tensor:
    """Has eq. 4 as its gradient: `sum_i d_ik - min_j d_ij`, (Q, K) -> (K,)."""
    own = F.one_hot(labels, d.shape[1]).to(d.dtype)
    return own.T @ ((own * d).sum(dim=1) - d.min(dim=1).values)


def lemma1(
    distance: str = "euclidean",
    seed: int = 0,
    *,
    way: int = 4,
    shot: int = 3,
    queries: int = 6,
    alphas: Sequence[float] = LEMMA1_ALPHAS,
    margin: float = 0.03,
) -> Lemma1Result:
    """Compares the gradient of every J_k, divided by alpha, with both limits of Lemma 1.

    Args:
        distance: A key of `tadam.metric.DISTANCES`.
        seed: Fixes network, support and queries.
        way: Classes K.
        shot: Support points per class.
        queries: Query points per class. A third of them, but at least one, are wrongly assigned,
            because eq. 4 is zero for a class without errors.
        alphas: Scales to try.
        margin: Assumption A1: a query's nearest prototype is at least this much nearer than the
            next.
    """
    if distance not in DISTANCES:
        raise UserError(f"unknown distance {distance!r}: choose one of {', '.join(DISTANCES)}")
    if way < 2 or shot < 1 or queries < 1:
        raise UserError(
            f"way must be 2 or more, shot and queries 1 or more, got {way, shot, queries}"
        )
    if not alphas or not all(0 < alpha < float("inf") for alpha in alphas):
        raise UserError(f"alphas must be positive numbers, got {list(alphas)}")
    problem = _Problem(distance, seed, way, shot)
    wrong = max(queries // 3, 1)
    labels = torch.arange(way).repeat_interleave(_CANDIDATES)
    rows = _choose(problem.distances().detach(), labels, queries, wrong, margin)
    d, labels = problem.distances(rows), labels[rows]

    def error(found: Tensor, limit: Tensor) -> float:
        return float(((found - limit).norm(dim=1) / limit.norm(dim=1)).max())

    small = problem.gradients(small_limit(d, labels))
    large = problem.gradients(large_limit(d, labels))
    alphas = tuple(sorted(alphas))
    scaled = [problem.gradients(class_losses(d, labels, alpha)) / alpha for alpha in alphas]
    return Lemma1Result(
        distance=distance,
        seed=seed,
        way=way,
        shot=shot,
        queries=queries,
        wrong=wrong,
        smallest_gap=_gaps(d.detach()).min().item(),
        alphas=alphas,
        error_to_small_limit=tuple(error(g, small) for g in scaled),
        error_to_large_limit=tuple(error(g, large) for g in scaled),
        gradient_norm=tuple(g.norm().item() for g in scaled),
        small_limit_norm=small.norm().item(),
        large_limit_norm=large.norm().item(),
    )


class _Problem:
    """A small random network, a support set and many candidates to choose queries from."""

    def __init__(self, distance: str, seed: int, way: int, shot: int) -> None:
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.distance, self.way, self.shot = distance, way, shot
        self.phi = [
            (normal(_INPUTS, _HIDDEN) / _INPUTS**0.5).requires_grad_(),
            (0.1 * normal(_HIDDEN)).requires_grad_(),
            (normal(_HIDDEN, _FEATURES) / _HIDDEN**0.5).requires_grad_(),
        ]
        centres = normal(way, 1, _INPUTS)
        self.support = (centres + _NOISE * normal(way, shot, _INPUTS)).flatten(0, 1)
        self.candidates = (centres + _NOISE * normal(way, _CANDIDATES, _INPUTS)).flatten(0, 1)

    def distances(self, rows: Tensor | None = None) -> Tensor:
        """Distances of some or all candidates, (Q, K); the prototypes depend on phi too."""
        query = self.candidates if rows is None else self.candidates[rows]
        weights, bias, last = self.phi
        z, zq = (torch.tanh(x @ weights + bias) @ last for x in (self.support, query))
        labels = torch.arange(self.way).repeat_interleave(self.shot)
        c = prototypes(z[None], labels[None], self.way)
        return DISTANCES[self.distance](zq[None], c)[0]

    def gradients(self, values: Tensor) -> Tensor:
        """Gradients of K values with respect to all of phi, (K,) -> (K, P)."""
        each = [torch.autograd.grad(value, self.phi, retain_graph=True) for value in values]
        return torch.stack([torch.cat([g.flatten() for g in gradient]) for gradient in each])


def _gaps(d: Tensor) -> Tensor:
    """How much nearer each query's nearest prototype is than the next, (Q, K) -> (Q,)."""
    nearest = d.topk(2, dim=1, largest=False).values
    return nearest[:, 1] - nearest[:, 0]


def _choose(d: Tensor, labels: Tensor, queries: int, wrong: int, margin: float) -> Tensor:
    """Rows of the first candidates of each class that satisfy A1, `wrong` of them misassigned."""
    clear = _gaps(d) >= margin
    right = d.argmin(dim=1) == labels
    rows: list[Tensor] = []
    for k in range(d.shape[1]):
        of_class = clear & (labels == k)
        for mask, count in ((of_class & right, queries - wrong), (of_class & ~right, wrong)):
            found = mask.nonzero()[:count, 0]
            if len(found) < count:
                raise UserError(
                    f"with this seed, class {k} has {len(found)} suitable queries, not {count}: "
                    "choose another seed or fewer queries"
                )
            rows.append(found)
    return torch.cat(rows)
