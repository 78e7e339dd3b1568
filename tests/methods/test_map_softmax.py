"""The exact solver: logistic regression of scikit-learn, a generic optimiser, a closed form."""

import warnings

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from tadam.methods.map_softmax import map_weights


def support(tasks: int, shots: list[int], features: int, scale: float) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(tasks, sum(shots), features, generator=generator, dtype=torch.float64)
    labels = torch.tensor([k for k, shot in enumerate(shots) for _ in range(shot)])
    return scale * z, labels.expand(tasks, -1)


@pytest.mark.parametrize(
    ("shots", "features", "scale", "variance"),
    [
        ([1] * 5, 16, 1.0, 0.5),
        ([5] * 5, 64, 3.0, 0.01),
        ([1, 4, 9], 4, 2.0, 10.0),  # unequal shots, fewer features than images
        ([3] * 20, 8, 1.0, 100.0),
        ([10] * 5, 32, 5.0, 1e-6),  # hardly any data against such a prior
    ],
)
def test_with_mean_zero_it_is_scikit_learns_logistic_regression_with_that_penalty(
    shots: list[int], features: int, scale: float, variance: float
) -> None:
    z, labels = support(3, shots, features, scale)
    weights = map_weights(z, labels, len(shots), torch.zeros(features), variance)
    for task in range(3):
        theirs = LogisticRegression(C=variance, fit_intercept=False, tol=1e-12, max_iter=10_000)
        with warnings.catch_warnings():  # it warns where it cannot get any closer
            warnings.simplefilter("ignore")
            theirs.set_params(solver="newton-cg").fit(z[task].numpy(), labels[task].numpy())
        np.testing.assert_allclose(weights[task], theirs.coef_, rtol=1e-5, atol=1e-7)


def test_with_another_mean_it_is_what_a_generic_optimiser_finds() -> None:
    z, labels = support(2, [1, 2, 3], 4, 1.5)
    mean = torch.randn(3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weights = map_weights(z, labels, 3, mean, 0.7)
    for task in range(2):
        x, y = z[task].numpy(), labels[task].numpy()

        def loss(flat: np.ndarray, x: np.ndarray = x, y: np.ndarray = y) -> float:
            logits = x @ flat.reshape(3, 4).T
            fit = logsumexp(logits, axis=1) - logits[np.arange(len(y)), y]
            return float(fit.sum() + ((flat - mean.numpy().ravel()) ** 2).sum() / (2 * 0.7))

        theirs = minimize(loss, np.zeros(12), method="BFGS", options={"gtol": 1e-7})
        np.testing.assert_allclose(weights[task].ravel(), theirs.x, atol=1e-5)
        assert loss(weights[task].numpy().ravel()) <= theirs.fun + 1e-12


def test_one_mean_for_all_classes_moves_the_weights_and_no_probability() -> None:
    z, labels = support(1, [2, 2], 3, 1.0)
    mean = torch.tensor([3.0, -1.0, 2.0], dtype=torch.float64)
    plain, moved = (map_weights(z, labels, 2, m, 0.5) for m in (torch.zeros(3), mean))
    torch.testing.assert_close(moved, plain + mean)
    torch.testing.assert_close((z @ moved.mT).softmax(-1), (z @ plain.mT).softmax(-1))


def test_tasks_are_solved_as_if_each_were_alone() -> None:
    z, labels = support(4, [1, 2, 3], 5, 1.0)
    z *= torch.tensor([0.01, 1.0, 10.0, 100.0])[:, None, None]  # easy and hard ones
    together = map_weights(z, labels, 3, torch.zeros(5), 4.0)
    for task in range(4):
        alone = map_weights(z[task : task + 1], labels[task : task + 1], 3, torch.zeros(5), 4.0)
        torch.testing.assert_close(together[task : task + 1], alone, rtol=1e-6, atol=1e-9)
        p = (z[task] @ together[task].mT).softmax(dim=-1)
        gradient = (p - torch.eye(3, dtype=p.dtype)[labels[task]]).mT @ z[task] + together[task] / 4
        assert gradient.abs().max() < 1e-8
