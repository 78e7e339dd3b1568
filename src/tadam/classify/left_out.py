"""Support images scored as if they were new: one left out at a time, or a whole class.

What is left out leaves its prototype, the mean of the prototypes and the covariance too. That is
exact, and cheap: the covariance changes by a matrix of low rank, so its inverse follows from
products that are there already (Sherman-Morrison and Woodbury).

The covariance is A = S + kappa I: the scatter within classes plus an isotropic prior. Everything
here is a product under kappa A^-1, which is the identity when kappa is large.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

#: Directions with less than this share of the largest variance count as having none.
_NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class Products:
    """Inner products under kappa A^-1.

    Attributes:
        zz: Of each image with itself, (N,).
        zc: Of images and prototypes, (N, K).
        cc: Of prototypes, (K, K).
        zs: Of images and the shift, (N,).
        cs: Of prototypes and the shift, (K,).
        ss: Of the shift with itself, ().
    """

    zz: Tensor
    zc: Tensor
    cc: Tensor
    zs: Tensor
    cs: Tensor
    ss: Tensor

    @property
    def lengths(self) -> Tensor:
        """Squared lengths of the prototypes without the shift, (K,)."""
        return self.cc.diagonal() + 2 * self.cs + self.ss


class SupportScatter:
    """The scatter of a support set within its classes, in the basis of its principal directions.

    Args:
        y: Standardised embeddings, (N, D), float64, whose prototypes have the mean 0.
        labels: Their classes, (N,), in 0..K-1.
        way: Number of classes K.
        shift: What was subtracted for that, (D,).

    Attributes:
        y: As given.
        labels: As given.
        counts: Images of each class, (K,).
        prototypes: Their means, (K, D).
    """

    def __init__(self, y: Tensor, labels: Tensor, way: int, shift: Tensor) -> None:
        self.y, self.labels = y, labels
        self.counts = torch.bincount(labels, minlength=way).to(y.dtype)
        self.prototypes = (
            torch.zeros(way, y.shape[1], dtype=y.dtype).index_add_(0, labels, y)
            / self.counts[:, None]
        )
        residuals = y - self.prototypes[labels]
        few = residuals.shape[0] < residuals.shape[1]
        self.variances, self._basis = _principal(residuals, few)
        # With few images the directions are sums of residuals, and are never written out.
        self._residuals = residuals if few else None
        # The shift goes with the prototypes, as one more.
        self._corners = torch.cat([self.prototypes, shift[None]])
        corners = self._corners @ residuals.T if few else self._corners
        self._c = corners @ self._basis
        inside = self._basis * self.variances if few else residuals @ self._basis
        self._y = inside + self._c[:-1][labels]
        self._squares = self._y.square()
        # What lies across all directions, where A is kappa I whatever kappa is.
        self._zz = y.square().sum(1) - self._squares.sum(1)
        self._zc = y @ self._corners.T - self._y @ self._c.T
        self._cc = self._corners @ self._corners.T - self._c @ self._c.T
        self._all = torch.arange(len(y))

    def products(self, rows: Tensor, kappa: float) -> Products:
        """Inner products of some images and all prototypes under kappa A^-1."""
        weights = kappa / (self.variances + kappa)
        every = torch.equal(rows, self._all)
        y, squares = (self._y, self._squares) if every else (self._y[rows], self._squares[rows])
        c = self._c * weights
        zz = squares @ weights + self._zz[rows]
        zc = y @ c.T + self._zc[rows]
        cc = c @ self._c.T + self._cc
        return Products(zz, zc[:, :-1], cc[:-1, :-1], zc[:, -1], cc[:-1, -1], cc[-1, -1])

    def weight(self, kappa: float) -> Tensor:
        """kappa A^-1 applied to the prototypes, (K, D)."""
        shrunk = self._c[:-1] * (kappa / (self.variances + kappa) - 1) @ self._basis.T
        return self.prototypes + (shrunk if self._residuals is None else shrunk @ self._residuals)

    def between(self, rows: Tensor, kappa: float) -> Tensor:
        """Inner products of some images with each other under kappa A^-1, (n, n)."""
        weights = kappa / (self.variances + kappa) - 1
        y, inside = self.y[rows], self._y[rows]
        return y @ y.T + inside * weights @ inside.T


def _principal(residuals: Tensor, few: bool) -> tuple[Tensor, Tensor]:
    """Variances (r,) of residuals R, (N, D), and a basis B of their directions; r <= min(N, D).

    The directions are orthonormal: with few images they are R' B, where B is (N, r), otherwise B
    itself, (D, r).
    """
    square = residuals @ residuals.T if few else residuals.T @ residuals
    variances, vectors = torch.linalg.eigh(square)
    kept = variances > _NEGLIGIBLE * variances.amax().clamp_min(1e-300)
    variances, vectors = variances[kept], vectors[:, kept]
    return variances, vectors / variances.sqrt() if few else vectors


@dataclass(frozen=True)
class LeftOut:
    """Images that were left out, seen by the metric that the others make.

    Attributes:
        labels: Their classes, (n,).
        scores: Inner product with each prototype, both seen from the mean of the prototypes, under
            the covariance without the image, (n, K).
        norms: Squared lengths of the prototypes under it, seen from there too, (n, K).
        lengths: Squared lengths of the prototypes under it, without the shift, (n, K).
        counts: Images of each class without it, (n, K).
        own: Squared distance from the prototype of their own class without it, (n,).
        frame: How the products of the prototypes change: by F W F', where F is this, (n, K, 3),
        change: and W is this, (n, 3, 3).
    """

    labels: Tensor
    scores: Tensor
    norms: Tensor
    lengths: Tensor
    counts: Tensor
    own: Tensor
    frame: Tensor
    change: Tensor

    @property
    def noise(self) -> Tensor:
        """Mean squared distance of an image from the mean of its class; 0 without images."""
        if not len(self.labels):
            return self.own.new_tensor(0.0)
        n = self.counts.gather(1, self.labels[:, None])[:, 0]  # without the image
        return (self.own * n / (n + 1)).mean()


def leave_one_out(scatter: SupportScatter, rows: Tensor, kappa: float) -> LeftOut:
    """Each of some images, whose classes have others too, without itself.

    Leaving out image i of class k, with residual r = z - c_k and f = n_k / (n_k - 1), takes
    f r r' from the scatter and (f - 1) r from the prototype.
    """
    labels, n = scatter.labels[rows], torch.arange(len(rows))
    p = scatter.products(rows, kappa)
    f = scatter.counts[labels] / (scatter.counts[labels] - 1)
    rc = p.zc - p.cc[labels]  # r with every prototype, (n, K)
    rz = p.zz - p.zc[n, labels]  # r with z, (n,)
    rr = rz - rc[n, labels]
    gain = f / (kappa - f * rr).clamp_min(1e-12 * kappa)  # Sherman-Morrison
    a = f - 1
    moved = rc.clone()
    moved[n, labels] -= a * rr  # r with the prototypes as they are without the image
    scores = p.zc + (gain * rz)[:, None] * moved
    scores[n, labels] -= a * rz
    norms = p.cc.diagonal() + gain[:, None] * moved**2
    norms[n, labels] -= a * (rc + moved)[n, labels]
    # The mean of the prototypes is -b r now: what it makes with them, with z and with itself.
    b = a / len(scatter.counts)
    drift = b * (1 + gain * rr)
    with_c, with_z, with_itself = -drift[:, None] * moved, -drift * rz, drift * b * rr
    rs = p.zs - p.cs[labels]
    shifted = p.cs + (gain * rs)[:, None] * moved
    shifted[n, labels] -= a * rs
    counts = scatter.counts.expand(len(rows), -1).clone()
    counts[n, labels] -= 1
    return LeftOut(
        labels,
        scores - with_c + (with_itself - with_z)[:, None],
        norms - 2 * with_c + with_itself[:, None],
        norms + 2 * shifted + (p.ss + gain * rs**2)[:, None],
        counts,
        f**2 * rr * (1 + gain * rr),
        torch.stack([moved, F.one_hot(labels, len(scatter.counts)), torch.ones_like(moved)], dim=2),
        _symmetric(gain, -a, drift, -(a**2) * rr, torch.zeros_like(a), with_itself),
    )


def _symmetric(aa: Tensor, ab: Tensor, ac: Tensor, bb: Tensor, bc: Tensor, cc: Tensor) -> Tensor:
    """Matrices of their entries, (n,) each -> (n, 3, 3)."""
    return torch.stack([aa, ab, ac, ab, bb, bc, ac, bc, cc], dim=1).view(-1, 3, 3)


def leave_class_out(scatter: SupportScatter, k: int, kappa: float) -> tuple[Tensor, Tensor, Tensor]:
    """The images of class k, as the metric of the other classes sees them.

    Returns:
        The other classes, (K-1,); the scores of the images of class k among them, as in `LeftOut`,
        (n_k, K-1); and the products of their prototypes, (K-1, K-1).
    """
    rows = (scatter.labels == k).nonzero()[:, 0]
    others = (torch.arange(len(scatter.counts)) != k).nonzero()[:, 0]
    p = scatter.products(rows, kappa)
    z_z = scatter.between(rows, kappa)
    rc, r_z = p.zc - p.cc[k], z_z - p.zc[:, k]  # residuals (rows) with prototypes and images
    rr = r_z - rc[:, k][:, None]
    inner = torch.linalg.solve(
        kappa * torch.eye(len(rows), dtype=rr.dtype) - (rr + rr.T) / 2, rc[:, others]
    )  # Woodbury
    scores = p.zc[:, others] + r_z.T @ inner
    between = p.cc[others][:, others] + rc[:, others].T @ inner
    with_c = between.mean(1)  # the mean of the other prototypes with each of them
    scores = scores - scores.mean(1, keepdim=True) - with_c + with_c.mean()
    return others, scores, between - with_c[:, None] - with_c + with_c.mean()
