"""Leaving out by formula is leaving out: all of it against a metric made without the images."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tadam.classify.left_out import SupportScatter, leave_class_out, leave_one_out

Array = npt.NDArray[np.float64]
LABELS = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3])


def points(labels: npt.NDArray[np.int64], features: int, seed: int) -> tuple[Array, Array]:
    """Unit vectors less the mean of their prototypes, and that mean."""
    y = np.random.default_rng(seed).normal(size=(len(labels), features))
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    shift = prototypes(y, labels).mean(axis=0)
    return y - shift, shift


def prototypes(y: Array, labels: npt.NDArray[np.int64]) -> Array:
    return np.stack([y[labels == k].mean(axis=0) for k in np.unique(labels)])


def by_hand(y: Array, labels: npt.NDArray[np.int64], kappa: float) -> tuple[Array, Array]:
    """Prototypes, and kappa times the inverse of the scatter within classes plus kappa I."""
    c = prototypes(y, labels)
    residuals = y - c[np.unique(labels, return_inverse=True)[1]]
    scatter = residuals.T @ residuals
    return c, np.asarray(kappa * np.linalg.inv(scatter + kappa * np.eye(y.shape[1])), np.float64)


def scatter_of(y: Array, labels: npt.NDArray[np.int64], shift: Array) -> SupportScatter:
    way = int(labels.max()) + 1
    return SupportScatter(
        torch.from_numpy(y), torch.from_numpy(labels), way, torch.from_numpy(shift)
    )


@pytest.mark.parametrize(("features", "kappa"), [(7, 0.7), (30, 0.7), (30, 50.0), (3, 0.02)])
def test_an_image_leaves_its_prototype_the_mean_and_the_covariance(
    features: int, kappa: float
) -> None:
    y, shift = points(LABELS, features, seed=features)
    scatter = scatter_of(y, LABELS, shift)
    found = leave_one_out(scatter, torch.arange(len(y)), kappa)
    full = scatter.products(torch.arange(0), kappa).cc
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        c, inverse = by_hand(y[others], LABELS[others], kappa)
        from_origin = c + shift
        lengths = np.einsum("kd,de,ke->k", from_origin, inverse, from_origin)
        z, c = y[i] - c.mean(axis=0), c - c.mean(axis=0)
        products = c @ inverse @ c.T
        own = z - c[LABELS[i]]
        np.testing.assert_allclose(found.scores[i], c @ inverse @ z, atol=1e-9)
        np.testing.assert_allclose(found.norms[i], products.diagonal(), atol=1e-9)
        np.testing.assert_allclose(found.lengths[i], lengths, atol=1e-9)
        np.testing.assert_allclose(found.own[i], own @ inverse @ own, atol=1e-9)
        changed = full + found.frame[i] @ found.change[i] @ found.frame[i].T
        np.testing.assert_allclose(changed, products, atol=1e-9)
        assert found.counts[i].tolist() == np.bincount(LABELS[others]).tolist()


@pytest.mark.parametrize(("features", "kappa"), [(7, 0.7), (30, 5.0)])
def test_a_class_leaves_with_all_its_images(features: int, kappa: float) -> None:
    y, shift = points(LABELS, features, seed=1)
    scatter = scatter_of(y, LABELS, shift)
    for k in range(4):
        gone = k == LABELS
        c, inverse = by_hand(y[~gone], LABELS[~gone], kappa)
        z, c = y[gone] - c.mean(axis=0), c - c.mean(axis=0)
        others, scores, products = leave_class_out(scatter, k, kappa)
        assert others.tolist() == [j for j in range(4) if j != k]
        np.testing.assert_allclose(scores, z @ inverse @ c.T, atol=1e-9)
        np.testing.assert_allclose(products, c @ inverse @ c.T, atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(
    counts=st.lists(st.integers(1, 6), min_size=2, max_size=6),
    features=st.integers(1, 12),
    kappa=st.floats(0.02, 500.0),
    seed=st.integers(0, 99),
)
def test_whatever_the_shots_the_weights_are_prototypes_under_the_inverse_covariance(
    counts: list[int], features: int, kappa: float, seed: int
) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    y, shift = points(labels, features, seed)
    scatter = scatter_of(y, labels, shift)
    c, inverse = by_hand(y, labels, kappa)
    np.testing.assert_allclose(scatter.weight(kappa), c @ inverse, atol=1e-8)
    rows = torch.from_numpy(np.flatnonzero(np.array(counts)[labels] > 1))
    found = leave_one_out(scatter, rows, kappa)
    assert torch.isfinite(found.scores).all()
    assert (found.own >= -1e-9).all()
