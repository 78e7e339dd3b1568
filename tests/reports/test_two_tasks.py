"""The picture of conditioning: how far classes are apart, and a network under given vectors."""

from dataclasses import replace

import numpy as np
import torch

from stores import store_of
from tadam.data.episodes import EpisodeSampler
from tadam.evaluation.answers import images_at
from tadam.reports.two_tasks import film_of, separation, two_tasks, under
from toy_backbones import random_model


def test_separation_is_the_share_of_variance_between_classes() -> None:
    labels = np.array([0, 0, 1, 1])
    z = np.array([[1, 0], [3, 0], [-1, 0], [-3, 0]], np.float32)
    assert separation(z, labels) == np.float32(4 / 5)  # means 2 and -2, 1 within each
    assert separation(z[:, ::-1], labels) == np.float32(4 / 5)
    assert separation(np.array([[1, 0], [1, 0], [2, 0], [2, 0]], np.float32), labels) == 1


def test_under_its_own_vectors_a_task_gets_the_answers_of_the_model() -> None:
    model, _ = random_model()
    sampler = EpisodeSampler(store_of([9] * 4, size=16), 3, 2, 10, seed=0)
    task, other = sampler.task(0), sampler.task(1)
    with torch.no_grad():
        direct = model(
            images_at(sampler.store, task.support[0])[None],
            torch.from_numpy(task.support_labels),
            images_at(sampler.store, task.query[0])[None],
            3,
        ).softmax(dim=2)[0]
    own = under(model, sampler, task, film_of(model, sampler, task))
    np.testing.assert_allclose(own.probabilities, direct, atol=1e-5)
    wrong = under(model, sampler, task, film_of(model, sampler, other))
    assert np.abs(own.z - wrong.z).max() > 1e-3


def test_the_two_tasks_are_of_different_families() -> None:
    model, _ = random_model()
    store = replace(store_of([9] * 6, size=16), families=("<a>",) * 3 + ("b",) * 3)
    html = two_tasks(model, EpisodeSampler(store, 3, 2, 10, seed=0, within_family=1))
    assert html.count("<svg") == 2
    assert html.count("<img") == 1
    assert "own vectors (" in html
    assert "(<a>)" not in html
