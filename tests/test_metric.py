"""Prototypes and distances agree with scikit-learn and hand computation; alpha stays positive."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.neighbors import NearestCentroid

from gradients import grad
from tadam.metric import DISTANCES, ScaledMetric, cosine, euclidean, prototypes, sqeuclidean


def random_task(
    seed: int, features: int = 6
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Support of shots 1, 4, 2 and 5 in random order, and 50 queries, close enough to be hard."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat([0, 1, 2, 3], [1, 4, 2, 5]))
    centres = rng.normal(size=(4, features))
    support = centres[labels] + rng.normal(size=(len(labels), features))
    query = centres[rng.integers(0, 4, 50)] + rng.normal(size=(50, features))
    return support, labels, query


@pytest.mark.parametrize("seed", range(5))
def test_prototype_classification_is_the_nearest_centroid_of_scikit_learn(seed: int) -> None:
    support, labels, query = random_task(seed)
    theirs = NearestCentroid().fit(support, labels)
    c = prototypes(torch.from_numpy(support)[None], torch.from_numpy(labels)[None], 4)
    np.testing.assert_allclose(c[0], theirs.centroids_)
    for distance in (euclidean, sqeuclidean):
        ours = distance(torch.from_numpy(query)[None], c)[0].argmin(dim=1)
        np.testing.assert_array_equal(ours, theirs.predict(query))
    assert len(np.unique(theirs.predict(query))) > 2


def test_prototypes_average_over_the_shots_of_each_class_and_task() -> None:
    z = torch.tensor([[[1.0], [2.0], [6.0]], [[1.0], [2.0], [6.0]]])
    labels = torch.tensor([[0, 1, 1], [1, 1, 0]])
    assert prototypes(z, labels, 2).tolist() == [[[1.0], [4.0]], [[6.0], [1.5]]]


def test_distances_of_a_3_4_5_triangle() -> None:
    z = torch.tensor([[[3.0, 4.0]]])
    c = torch.tensor([[[0.0, 0.0], [3.0, 0.0], [-4.0, 3.0], [6.0, 8.0], [-3.0, -4.0]]])
    assert euclidean(z, c)[0, 0, :2].tolist() == [5, 4]
    assert sqeuclidean(z, c)[0, 0, :2].tolist() == [25, 16]
    # at right angles 2, in line 0, opposite 4
    np.testing.assert_allclose(cosine(z, c)[0, 0, 2:], [2, 0, 4], atol=1e-6)


def test_sqeuclidean_is_the_square_and_cosine_is_two_minus_twice_the_cosine() -> None:
    rng = np.random.default_rng(0)
    z, c = rng.normal(size=(2, 7, 5)), rng.normal(size=(2, 3, 5))
    tz, tc = torch.from_numpy(z), torch.from_numpy(c)
    np.testing.assert_allclose(sqeuclidean(tz, tc), euclidean(tz, tc).square())
    norms = np.linalg.norm(z, axis=2)[:, :, None] * np.linalg.norm(c, axis=2)[:, None]
    np.testing.assert_allclose(cosine(tz, tc), 2 * (1 - z @ c.transpose(0, 2, 1) / norms))


def test_distances_keep_their_digits_far_from_the_origin() -> None:
    z = torch.full((1, 1, 4), 1000.0)
    assert euclidean(z, z + 0.125).item() == 0.25  # sqrt(4 * 0.125^2)


@pytest.mark.parametrize("name", sorted(DISTANCES))
def test_gradient_is_finite_where_a_query_meets_its_prototype(name: str) -> None:
    z = torch.tensor([[[1.0, 2.0]]], requires_grad=True)
    c = torch.tensor([[[1.0, 2.0], [4.0, 6.0]]])
    distance = DISTANCES[name](z, c)
    assert distance[0, 0, 0].item() == pytest.approx(0, abs=1e-5)
    distance.sum().backward()
    assert torch.isfinite(grad(z)).all()
    if name == "euclidean":  # the unit vector away from the other prototype, nothing else
        np.testing.assert_allclose(grad(z)[0, 0], [-0.6, -0.8], rtol=1e-6)


@pytest.mark.parametrize("learn_alpha", [True, False])
@pytest.mark.parametrize(("distance", "expected"), [("euclidean", -12.5), ("sqeuclidean", -62.5)])
def test_logits_are_minus_alpha_times_the_distance(
    distance: str, expected: float, learn_alpha: bool
) -> None:
    metric = ScaledMetric(distance, alpha=2.5, learn_alpha=learn_alpha)
    logits = metric(torch.tensor([[[3.0, 4.0]]]), torch.zeros(1, 1, 2))
    assert logits.item() == pytest.approx(expected, rel=1e-6)
    assert metric.alpha.item() == pytest.approx(2.5, rel=1e-6)


def test_alpha_is_a_parameter_only_when_it_is_learnt() -> None:
    fixed, learnt = ScaledMetric(alpha=2.0), ScaledMetric(alpha=2.0, learn_alpha=True)
    assert [name for name, _ in fixed.named_parameters()] == []
    assert [name for name, _ in learnt.named_parameters()] == ["log_alpha"]
    assert list(fixed.state_dict()) == list(learnt.state_dict()) == ["log_alpha"]


def test_gradient_of_the_learnt_scale_is_alpha_times_that_of_alpha() -> None:
    metric = ScaledMetric("euclidean", alpha=3.0, learn_alpha=True)
    metric(torch.tensor([[[3.0, 4.0]]]), torch.zeros(1, 1, 2)).sum().backward()
    assert grad(metric.log_alpha).item() == pytest.approx(3.0 * -5.0, rel=1e-6)


def test_learnt_alpha_stays_positive_under_steps_that_would_cross_zero() -> None:
    metric = ScaledMetric("euclidean", alpha=1.0, learn_alpha=True)
    optimiser = torch.optim.SGD(metric.parameters(), lr=10.0)
    z, c = torch.tensor([[[3.0, 4.0]]]), torch.zeros(1, 1, 2)
    for _ in range(5):
        optimiser.zero_grad()
        (-metric(z, c)).sum().backward()  # a plain alpha would step from 1 to 1 - 10 * 5
        optimiser.step()
        assert 0 < metric.alpha.item() < 1e-20


@pytest.mark.parametrize("name", DISTANCES)
def test_a_metric_knows_the_name_of_its_distance(name: str) -> None:
    metric = ScaledMetric(name)
    assert metric.distance_name == name
    assert metric.distance is DISTANCES[metric.distance_name]
