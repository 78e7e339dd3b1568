"""What conditioning does: own, another task's, the mean and no vectors, by brute force."""

import numpy as np
import pytest
import torch

from tadam.data.episodes import EpisodeSampler
from tadam.data.store import ImageStore
from tadam.evaluation.answers import images_at
from tadam.evaluation.conditioning import conditioning_notes
from tadam.evaluation.tasks import evaluate_tasks
from tadam.methods.tadam import Tadam
from thread_ranks import in_threads
from toy_backbones import blobs, random_model

TASKS, TRAINING = 6, 100


def make_store() -> ImageStore:
    """Four classes of ten images."""
    images, _ = blobs(4, 10)
    return ImageStore.from_counts(images, [10] * 4, list("abcd"))


def make_sampler() -> EpisodeSampler:
    return EpisodeSampler(make_store(), way=3, shot=2, queries=20, seed=0)


def film_of(model: Tadam, sampler: EpisodeSampler, number: int) -> list[tuple[torch.Tensor, ...]]:
    """The FiLM vectors of one task, from its own support images."""
    task = sampler.task(number)
    z = model.embed(images_at(sampler.store, task.support[0]))[None]
    film = model.film_from(z, torch.from_numpy(task.support_labels), sampler.way)
    assert film is not None
    return [pair for pair in film if pair is not None]


def right_with(
    model: Tadam, sampler: EpisodeSampler, number: int, film: list[tuple[torch.Tensor, ...]] | None
) -> float:
    """Share of a task's queries that are answered correctly under the given vectors."""
    task = sampler.task(number)
    support, query = (
        model.embed(images_at(sampler.store, rows[0]), film)[None]  # type: ignore[arg-type]
        for rows in (task.support, task.query)
    )
    logits = model.compare(support, torch.from_numpy(task.support_labels), query, sampler.way)
    return float((logits.argmax(dim=2).numpy() == task.query_labels).mean())


@torch.no_grad()
def test_own_other_mean_and_off_are_what_direct_calls_give() -> None:
    model, _ = random_model()
    sampler, training = make_sampler(), EpisodeSampler(make_store(), 3, 2, 1, seed=9)
    films = [film_of(model, sampler, t) for t in range(TASKS + 1)]
    trained = [film_of(model, training, t) for t in range(TRAINING)]
    mean = [
        tuple(torch.cat([film[layer][i] for film in trained]).mean(dim=0)[None] for i in range(2))
        for layer in range(len(trained[0]))
    ]
    expected = {
        "": [right_with(model, sampler, t, films[t]) for t in range(TASKS)],
        "other": [right_with(model, sampler, t, films[t + 1]) for t in range(TASKS)],
        "mean": [right_with(model, sampler, t, mean) for t in range(TASKS)],
        "unconditioned": [right_with(model, sampler, t, None) for t in range(TASKS)],
    }
    result = evaluate_tasks(model, sampler, TASKS, training=training)
    assert result.accuracy == pytest.approx(np.mean(expected[""]))
    assert list(result.controls) == ["other", "mean", "unconditioned"]
    for name, control in result.controls.items():
        paired = np.array(expected[""]) - expected[name]
        assert control["accuracy"] == pytest.approx(np.mean(expected[name]))
        assert control["difference"] == pytest.approx(paired.mean())
        half = 1.96 * paired.std(ddof=1) / TASKS**0.5
        assert control["difference_ci95"] == pytest.approx(half)
    assert len({round(sum(values), 6) for values in expected.values()}) > 2


def test_without_training_tasks_the_mean_is_left_out() -> None:
    result = evaluate_tasks(random_model()[0], make_sampler(), TASKS)
    assert list(result.controls) == ["other", "unconditioned"]


def test_processes_that_share_the_tasks_agree_on_every_control() -> None:
    model, _ = random_model()
    training = EpisodeSampler(make_store(), 3, 2, 1, seed=9)
    alone = evaluate_tasks(model, make_sampler(), TASKS, training=training)
    for size in (2, 4):
        for result in in_threads(
            size,
            lambda ranks: evaluate_tasks(
                model, make_sampler(), TASKS, ranks=ranks, training=training
            ),
        ):
            assert result.controls == alone.controls


@pytest.mark.parametrize(
    ("difference", "half", "words"),
    [
        (0.113, 0.02, "depends on the task: own minus other is +11.30 ± 2.00 points"),
        (
            0.001,
            0.002,
            "no better than another task's (+0.10 ± 0.20 points): "
            "no dependence on the task is seen at this precision",
        ),
        (-0.03, 0.01, "do worse than another task's (-3.00 ± 1.00 points)"),
    ],
)
def test_a_sentence_says_whether_conditioning_depends_on_the_task(
    difference: float, half: float, words: str
) -> None:
    other = {"accuracy": 0.5, "ci95": 0.1, "difference": difference, "difference_ci95": half}
    (note,) = conditioning_notes({"other": other})
    assert words in note
    assert note.endswith(".")


def test_nothing_is_said_about_a_model_without_conditioning_or_about_one_task() -> None:
    assert conditioning_notes({}) == ()
    one = {"accuracy": 0.5, "ci95": None, "difference": 0.1, "difference_ci95": None}
    assert conditioning_notes({"other": one}) == ()


def test_one_shot_says_that_there_is_no_spread_within_a_class() -> None:
    model, _ = random_model(conditioning={"representation": "moments"})
    sampler = EpisodeSampler(make_store(), 3, 1, 20, seed=0)
    assert any("no spread within a class" in n for n in evaluate_tasks(model, sampler, 2).notes)
    assert not any("spread" in n for n in evaluate_tasks(model, make_sampler(), 2).notes)
