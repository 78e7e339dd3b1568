"""Calibration: leave-one-out by brute force, a bounded alpha, a smaller error on new classes."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from torch import Tensor

import tadam.classify.calibration
from tadam import train
from tadam.classify.calibration import LeftOut, calibrated_alpha, leave_one_out, rejection_threshold
from tadam.evaluation.trust import auroc, measure_trust
from tadam.metric import DISTANCES, prototypes

#: A small network that is over-confident on purpose: alpha is fixed, and too large.
SETTINGS = (
    "backbone.name=conv4",
    "backbone.width=8",
    "metric.alpha=15.0",
    "metric.learn_alpha=false",
    "auxiliary.enabled=false",
    "schedule.episodes=60",
    "schedule.warmup=5",
    "validation.every=60",
    "validation.tasks=4",
    "validation.queries=20",
    "conditioning.layers=all",
    "conditioning.representation=mean",
    "conditioning.standardise=false",
    "conditioning.base=false",
    "conditioning.dropout=0",
    "episode.within_family=0",
    "optimiser.multiplier_decay=10",
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    train("shapes", folder, settings=SETTINGS, device="cpu")
    return folder


def support(
    counts: list[int], seed: int = 0, features: int = 5, spread: float = 0.5
) -> tuple[Tensor, Tensor, Tensor]:
    dice = np.random.default_rng(seed)
    classes = np.repeat(np.arange(len(counts)), counts)
    centres = dice.normal(0, 1, (len(counts), features))
    points = centres[classes] + spread * dice.normal(0, 1, (len(classes), features))
    order = dice.permutation(len(classes))
    z, labels = torch.from_numpy(points[order]).float(), torch.from_numpy(classes[order])
    return z, labels, prototypes(z[None], labels[None], len(counts))[0]


@pytest.mark.parametrize("distance", DISTANCES)
@settings(max_examples=10)
@given(counts=st.lists(st.integers(1, 5), min_size=2, max_size=5), seed=st.integers(0, 2**32 - 1))
def test_an_image_is_measured_against_prototypes_made_without_it(
    distance: str, counts: list[int], seed: int
) -> None:
    z, labels, c = support(counts, seed)
    got = leave_one_out(z, labels, c, distance)
    rows, wanted = [], []
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i]
        if counts[labels[i]] < 2:
            continue
        rows.append(labels[i].item())
        without = prototypes(z[others][None], labels[others][None], len(counts))
        wanted.append(DISTANCES[distance](z[i][None, None], without)[0, 0])
    assert got.labels.tolist() == rows
    assert got.distances.shape == (len(rows), len(counts))
    if rows:
        torch.testing.assert_close(got.distances, torch.stack(wanted), rtol=1e-3, atol=1e-4)


def test_with_one_shot_the_trained_alpha_stays() -> None:
    z, labels, c = support([1, 1, 1])
    assert calibrated_alpha(leave_one_out(z, labels, c, "euclidean"), 7.0) == 7.0


@pytest.mark.parametrize("trained_alpha", [1e-2, 1.0, 1e2])
def test_alpha_minimises_log_loss_and_prior(
    trained_alpha: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tadam.classify.calibration, "PRIOR_SPREAD", 2.0)
    z, labels, c = support([6, 4, 5], spread=1.0)
    left_out = leave_one_out(z, labels, c, "euclidean")
    alpha = calibrated_alpha(left_out, trained_alpha)

    def loss(log_alpha: float) -> float:
        logits = -math.exp(log_alpha) * left_out.distances.double()
        fit = torch.nn.functional.cross_entropy(logits, left_out.labels, reduction="sum").item()
        return fit + (log_alpha - math.log(trained_alpha)) ** 2 / 8

    best = min(np.linspace(-14, 14, 20001), key=loss)
    assert math.log(alpha) == pytest.approx(best, abs=0.01)


def test_a_few_images_that_are_all_right_do_not_make_it_certain() -> None:
    z, labels, c = support([2, 2], spread=1e-4)
    alpha = calibrated_alpha(leave_one_out(z, labels, c, "euclidean"), 1.0)
    assert 1.0 < alpha < 3.0
    z, labels, c = support([200, 200], spread=1e-4)
    assert alpha < calibrated_alpha(leave_one_out(z, labels, c, "euclidean"), 1.0) < 1000


@pytest.mark.parametrize("wrong", [False, True])
def test_answers_that_are_all_right_or_all_wrong_give_a_finite_alpha(wrong: bool) -> None:
    distances = torch.tensor([[0.0, 1e4], [1e4, 0.0]]).repeat(500, 1)
    labels = torch.tensor([1, 0] if wrong else [0, 1]).repeat(500)
    alpha = calibrated_alpha(LeftOut(distances, labels), 2.0)
    assert (alpha < 2.0) == wrong
    assert 2e-3 * 0.999 <= alpha <= 2e3 * 1.001


def test_images_that_are_all_the_same_are_no_problem() -> None:
    z = torch.ones(6, 4)
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    c = torch.ones(2, 4)
    assert calibrated_alpha(leave_one_out(z, labels, c, "cosine"), 5.0) == pytest.approx(5.0, 0.01)
    assert rejection_threshold(z, labels, c) == pytest.approx(0, abs=1e-6)


def test_the_threshold_lets_most_of_the_left_out_images_pass() -> None:
    z, labels, c = support([50, 50, 50])
    threshold = rejection_threshold(z, labels, c)
    nearest = leave_one_out(z, labels, c, "cosine").distances.min(dim=1).values
    assert (nearest <= threshold).float().mean().item() == pytest.approx(0.95, abs=0.01)


def test_with_one_shot_the_threshold_is_the_widest_gap_between_neighbours() -> None:
    c = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.01]])  # right, up, left
    threshold = rejection_threshold(c, torch.arange(3), c)
    assert threshold == pytest.approx(2.0, abs=0.05)  # a right angle: 2 (1 - cos 90°)


def test_calibration_lowers_the_calibration_error_on_classes_never_seen(trained: Path) -> None:
    result = measure_trust(trained, "shapes", "test", shot=5, tasks=25, queries=60, device="cpu")
    assert result.calibration_error_trained > 0.06  # there is something to put right
    assert result.calibration_error < 0.5 * result.calibration_error_trained
    assert 0.8 < result.kept <= 1
    assert 0.5 < result.auroc < 1
    assert result.auroc_ci95 is not None
    assert 0 < result.auroc_ci95 < 0.1


@settings(max_examples=30)
@given(
    known=st.lists(st.integers(0, 6), min_size=1, max_size=12),
    unknown=st.lists(st.integers(0, 6), min_size=1, max_size=12),
)
def test_auroc_is_sklearns(known: list[int], unknown: list[int]) -> None:
    truth = [0] * len(known) + [1] * len(unknown)
    assert auroc(known, unknown) == pytest.approx(roc_auc_score(truth, known + unknown))
