"""The metric that is estimated from a support set: its limits, its choices, and bad luck."""

import math
from dataclasses import astuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from tadam.classify import metric_fit
from tadam.classify.adaptive_metric import POWER, AdaptiveMetric
from tadam.classify.left_out import SupportScatter, leave_one_out
from tadam.classify.metric_fit import fit_metric, fit_with_answers, left_out_answers


def task(
    way: int, shot: int, features: int = 24, seed: int = 0, spread: float = 1.0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Classes that differ in a few features, among others that vary far more within a class."""
    dice = np.random.default_rng(seed)
    means = np.zeros((way, features))
    means[:, :6] = dice.normal(size=(way, 6))
    scales = np.r_[np.full(6, 0.3), np.full(features - 6, 2.0)] * spread

    def draw(each: int) -> tuple[Tensor, Tensor]:
        labels = np.repeat(np.arange(way), each)
        z = means[labels] + scales * dice.normal(size=(len(labels), features))
        return torch.from_numpy(z).float(), torch.from_numpy(labels)

    return *draw(shot), *draw(40)


def accuracy(metric: AdaptiveMetric, z: Tensor, labels: Tensor) -> float:
    return float((metric.probabilities(z).argmax(1) == labels).double().mean())


def pinned(monkeypatch: pytest.MonkeyPatch, kappa: float) -> None:
    """Makes kappa what it is told to be."""
    monkeypatch.setattr(metric_fit, "_shrinkage", lambda *a, **k: (kappa, 10.0))


def test_it_finds_which_features_matter_where_the_nearest_prototype_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    z, labels, queries, truth = task(way=6, shot=10)
    found, _ = fit_metric(z, labels, 6)
    pinned(monkeypatch, 1e6)
    nearest, _ = fit_metric(z, labels, 6)
    assert accuracy(found, queries, truth) > accuracy(nearest, queries, truth) + 0.2


def test_with_much_shrinkage_it_is_the_nearest_prototype(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned(monkeypatch, 1e9)
    z, labels, queries, _ = task(way=5, shot=50)
    metric, _ = fit_metric(z, labels, 5)
    seen, c = metric.standardised(queries), metric.standardised(z).view(5, 50, -1).mean(1)
    nearest = torch.cdist(seen, c).argmin(1)
    same = (metric.probabilities(queries).argmax(1) == nearest).double().mean()
    assert same > 0.97  # all but those where a fiftieth of a prototype's length decides


def test_with_no_shrinkage_and_many_images_it_is_scikit_learns_lda(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pinned(monkeypatch, 1e-9)
    z, labels, queries, _ = task(way=4, shot=400)
    metric, _ = fit_metric(z, labels, 4)
    theirs = LinearDiscriminantAnalysis().fit(metric.standardised(z).numpy(), labels.numpy())
    answers = theirs.predict(metric.standardised(queries).numpy())
    ours = (metric.scores(queries) + metric.bias).argmax(1)  # alpha is of another scale
    assert (ours.numpy() == answers).mean() > 0.99


def test_the_shrinkage_has_the_least_loss_of_all_candidates() -> None:
    z, labels, _, _ = task(way=5, shot=4, seed=3)
    metric, _ = fit_metric(z, labels, 5)
    chosen = metric.double()
    scatter = SupportScatter(chosen.standardised(z.double()), labels, 5, chosen.shift)
    near = 10 * 4**0.75
    losses = {}
    for exponent in range(-6, 7):
        left_out = leave_one_out(scatter, torch.arange(20), 2.0**exponent)
        logits = metric_fit.left_out_logits(left_out)
        losses[2.0**exponent] = (
            min(  # every alpha on a fine grid
                float(torch.nn.functional.cross_entropy(a * logits, labels, reduction="sum"))
                + math.log(a / near) ** 2 / (2 * 0.35**2)
                for a in near * np.exp(np.linspace(-2, 2, 401))
            )
            + math.log(2.0**exponent) ** 2 / 2
        )
    assert metric.shrinkage.item() == min(losses, key=lambda kappa: losses[kappa])


def test_probabilities_say_how_often_the_answer_is_right() -> None:
    gaps = []
    for seed in range(12):
        z, labels, queries, truth = task(way=5, shot=5, seed=seed, spread=1.5)
        metric, _ = fit_metric(z, labels, 5)
        p = metric.probabilities(queries)
        gaps.append(float(p.amax(1).mean()) - accuracy(metric, queries, truth))
    assert abs(np.mean(gaps)) < 0.08


def test_classes_left_out_foretell_what_becomes_of_unknown_images() -> None:
    told, kept, caught = [], [], []
    for seed in range(10):
        z, labels, queries, truth = task(way=16, shot=8, seed=seed)
        known, new = labels < 8, truth >= 8
        metric, expected = fit_metric(z[known], labels[known], 8)
        strange = metric.strangeness(queries) > 1
        told.append(astuple(expected))
        kept.append(1 - float(strange[~new].double().mean()))
        caught.append(float(strange[new].double().mean()))
    kept_told, caught_told, auroc = np.mean(told, axis=0)
    assert abs(kept_told - np.mean(kept)) < 0.1
    assert abs(caught_told - np.mean(caught)) < 0.15
    assert auroc > 0.6


def test_a_left_out_answer_is_that_of_a_classifier_that_never_saw_the_image() -> None:
    z, labels, _, _ = task(way=4, shot=12, seed=5)
    metric, _ = fit_metric(z, labels, 4)
    found = left_out_answers(metric, z, labels)
    refitted = []
    for i in range(len(z)):  # everything anew, the centre and the shrinkage too
        others = torch.arange(len(z)) != i
        without, _ = fit_metric(z[others], labels[others], 4)
        refitted.append(without.probabilities(z[i : i + 1])[0].numpy())
    np.testing.assert_allclose(found.probabilities, np.stack(refitted), atol=0.12)
    assert np.abs(found.probabilities - np.stack(refitted)).mean() < 0.02


def test_an_image_alone_in_its_class_has_no_left_out_answer() -> None:
    z, labels, _, _ = task(way=3, shot=4)
    metric, _ = fit_metric(z[:9], labels[:9], 3)
    found = left_out_answers(metric, z[:9], labels[:9])
    assert np.isnan(found.probabilities[8]).all()
    assert np.isnan(found.strangeness[8])
    assert np.isfinite(found.probabilities[:8]).all()


def test_classes_with_few_images_hold_their_own_among_classes_with_many() -> None:
    ours, theirs = [], []
    for seed in range(6):
        z, labels, queries, truth = task(way=6, shot=20, seed=seed)
        rows = torch.cat([(labels == k).nonzero()[: 20 if k % 2 else 2, 0] for k in range(6)])
        metric, _ = fit_metric(z[rows], labels[rows], 6)
        few = truth % 2 == 0
        ours.append(accuracy(metric, queries[few], truth[few]))
        regression = LogisticRegression(C=10).fit(metric.standardised(z[rows]), labels[rows])
        theirs.append(regression.score(metric.standardised(queries[few]), truth[few]))
    assert np.mean(ours) > np.mean(theirs) + 0.1


def test_features_that_are_never_negative_are_evened_out_by_a_power() -> None:
    z, labels, _, _ = task(way=3, shot=4)
    assert fit_metric(z, labels, 3)[0].power == 1
    assert fit_metric(z.abs(), labels, 3)[0].power == POWER
    assert fit_metric(z.abs(), labels, 3, normalised=False)[0].power == 1


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(1, 7), min_size=2, max_size=8),
    features=st.integers(1, 40),
    kind=st.sampled_from(["usual", "all equal", "constant feature", "two copies", "tiny", "huge"]),
    normalised=st.booleans(),
    seed=st.integers(0, 999),
)
def test_whatever_the_images_every_answer_is_a_number(
    counts: list[int], features: int, kind: str, normalised: bool, seed: int
) -> None:
    labels = torch.from_numpy(np.repeat(np.arange(len(counts)), counts))
    z = torch.from_numpy(np.random.default_rng(seed).normal(size=(len(labels), features))).float()
    if kind == "all equal":
        z = torch.ones_like(z)
    elif kind == "constant feature":
        z[:, 0] = 5.0
    elif kind == "two copies":
        z[-1] = z[0]
    elif kind in ("tiny", "huge"):
        z = z * (1e-18 if kind == "tiny" else 1e15)
    metric, expected = fit_metric(z, labels, len(counts), normalised=normalised)
    p = metric.probabilities(z)
    assert torch.isfinite(p).all()
    torch.testing.assert_close(p.sum(1), torch.ones(len(z)))
    assert torch.isfinite(metric.strangeness(z)).all()
    assert 0 <= expected.caught <= 1
    assert np.isfinite(left_out_answers(metric, z, labels).labels).all()


def test_ten_thousand_images_and_hundreds_of_classes_are_no_trouble() -> None:
    dice = np.random.default_rng(0)
    labels = torch.from_numpy(np.arange(12_000) % 400)
    means = dice.normal(size=(400, 48))
    z = torch.from_numpy(means[labels] + dice.normal(size=(12_000, 48))).float()
    metric, expected = fit_metric(z, labels, 400)
    assert accuracy(metric, z, labels) > 0.9
    assert expected.auroc is not None


@pytest.mark.parametrize("most", [2**20, 40])
def test_a_fit_knows_the_left_out_answers_unless_there_are_too_many_images(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(metric_fit, "_MOST_SCORES", most)
    z, labels, _, _ = task(way=3, shot=9, seed=2)
    z, labels = z[:20], labels[:20]  # classes of 9, 9 and 2
    fitted = fit_with_answers(z, labels, 3)
    assert (fitted.left_out is None) == (most == 40)
    if fitted.left_out is not None:
        anew = left_out_answers(fitted.metric, z, labels)
        np.testing.assert_allclose(fitted.left_out.probabilities, anew.probabilities, atol=1e-5)
        np.testing.assert_allclose(fitted.left_out.strangeness, anew.strangeness, atol=1e-3)
