"""Evaluation measures what the model says: intervals, confusion, calibration, conditioning off."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tadam.evaluation.answers
import tadam.evaluation.tasks
from reference import random_weights
from tadam.config import Config
from tadam.data.episodes import Episode, EpisodeSampler
from tadam.data.store import ImageStore
from tadam.errors import UserError
from tadam.evaluation.answers import images_at
from tadam.evaluation.scores import calibration_error, confusion_matrix, mean_and_interval
from tadam.evaluation.tasks import Evaluation, evaluate, evaluate_tasks
from tadam.methods.base import InputSpec
from tadam.methods.tadam import Tadam
from tadam.models.modelfile import ModelInfo, load_model, save_model
from thread_ranks import in_threads

TASKS = 6


def make_model(seed: int = 0, **tables: dict[str, Any]) -> tuple[Tadam, ModelInfo]:
    """A model with random weights and large multipliers, so that conditioning matters."""
    config = Config().updated({"backbone": {"width": 2}, **tables})
    spec = InputSpec(channels=3, image_size=16, auxiliary_classes=0)
    model = Tadam.build(config, spec)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    weights = random_weights(shapes, seed)
    model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    return model.eval(), ModelInfo(config, spec)


def make_store() -> ImageStore:
    """Four classes of 9 to 12 images, each around a colour of its own, and hard to tell apart."""
    rng = np.random.default_rng(0)
    counts = [9, 10, 11, 12]
    colours = np.repeat(rng.uniform(80, 170, (4, 3)), counts, axis=0)[:, None, None]
    shades = rng.normal(0, 25, (sum(counts), 1, 1, 3))
    images = colours + shades + rng.normal(0, 30, (sum(counts), 16, 16, 3))
    return ImageStore.from_counts(images.clip(0, 255).astype(np.uint8), counts, list("abcd"))


def make_sampler(seed: int = 0) -> EpisodeSampler:
    return EpisodeSampler(make_store(), way=3, shot=2, queries=20, seed=seed)


def direct(model: Tadam, sampler: EpisodeSampler, condition: bool) -> np.ndarray:
    """Probabilities of the model called on each task by itself, (T, Q, K)."""
    result = []
    for t in range(TASKS):
        task = sampler.task(t)
        with torch.no_grad():
            logits = model(
                images_at(sampler.store, task.support[0])[None],
                torch.from_numpy(task.support_labels),
                images_at(sampler.store, task.query[0])[None],
                sampler.way,
                condition,
            )
        exponent = np.exp(logits.double().numpy()[0])
        result.append(exponent / exponent.sum(axis=1, keepdims=True))
    return np.stack(result)


def accuracy_of(probabilities: np.ndarray, sampler: EpisodeSampler) -> float:
    return float((probabilities.argmax(2) == sampler.batch(0, TASKS).query_labels).mean())


def calibration_by_hand(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Fifteen bins, one after the other, as the definition reads."""
    confidence, answers = probabilities.max(axis=2).ravel(), probabilities.argmax(axis=2).ravel()
    right, error = answers == labels.ravel(), 0.0
    for low in range(15):
        inside = (confidence >= low / 15) & (confidence < (low + 1) / 15)
        if inside.any():
            gap = abs(confidence[inside].mean() - right[inside].mean())
            error += gap * inside.sum() / len(right)
    return error


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_conditioning_on_and_off_match_direct_calls_after_loading(
    tmp_path: Path, distance: str
) -> None:
    model, info = make_model(metric={"distance": distance})
    save_model(tmp_path / "m", model, info)
    loaded, _ = load_model(tmp_path / "m")
    sampler = make_sampler()
    result = evaluate_tasks(loaded, sampler, TASKS)
    on, off = direct(model, sampler, True), direct(model, sampler, False)
    assert result.accuracy == pytest.approx(accuracy_of(on, sampler))
    assert result.accuracy_unconditioned == pytest.approx(accuracy_of(off, sampler))
    assert result.accuracy != result.accuracy_unconditioned


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("batch", [256, 7])
def test_embedding_each_image_once_gives_the_answer_of_the_direct_forward(
    monkeypatch: pytest.MonkeyPatch, batch: int, enabled: bool
) -> None:
    monkeypatch.setattr(tadam.evaluation.answers, "IMAGES_AT_ONCE", batch)
    model, _ = make_model(conditioning={"enabled": enabled})
    sampler = make_sampler()
    result = evaluate_tasks(model, sampler, TASKS)
    p, labels = direct(model, sampler, enabled), sampler.batch(0, TASKS).query_labels
    right = p.argmax(axis=2) == labels
    assert result.accuracy == pytest.approx(right.mean())
    per_task = right.mean(axis=1)
    assert result.ci95 == pytest.approx(1.96 * np.std(per_task, ddof=1) / np.sqrt(TASKS))
    assert result.calibration_error == pytest.approx(calibration_by_hand(p, labels), abs=1e-5)
    assert (result.accuracy_unconditioned is None) == (not enabled)


def test_confusion_and_per_class_accuracy_count_every_query() -> None:
    model, _ = make_model()
    sampler = make_sampler()
    result = evaluate_tasks(model, sampler, TASKS)
    p = direct(model, sampler, True)
    confusion = np.zeros((4, 4), int)
    for t in range(TASKS):
        task = sampler.task(t)
        for q in range(20):
            truth = np.searchsorted(np.cumsum([9, 10, 11, 12]), task.query[0, q], side="right")
            confusion[truth, task.classes[0, p[t, q].argmax()]] += 1
    assert result.confusion == confusion.tolist()
    assert confusion.sum() == TASKS * 20
    expected = {name: confusion[k, k] / confusion[k].sum() for k, name in enumerate("abcd")}
    assert result.per_class == pytest.approx(expected)
    assert result.class_names == ("a", "b", "c", "d")


def test_confusion_translates_the_labels_of_a_task_to_classes_of_the_split() -> None:
    episode = Episode(
        classes=np.array([[2, 0], [1, 2]]),
        support=np.zeros((2, 2), np.int64),
        support_labels=np.array([[0, 1], [0, 1]]),
        query=np.zeros((2, 3), np.int64),
        query_labels=np.array([[0, 0, 1], [1, 0, 0]]),
    )
    answers = np.array([[0, 1, 1], [0, 0, 1]])
    matrix = confusion_matrix(np.eye(2, dtype=np.float32)[answers], episode, 4)
    expected = [[1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0]]
    assert matrix.tolist() == expected


def test_a_class_that_no_task_asked_for_has_no_accuracy() -> None:
    model, _ = make_model()
    sampler = make_sampler()
    result = evaluate_tasks(model, sampler, 1)
    asked = {"abcd"[k] for k in sampler.task(0).classes[0]}
    assert set(result.per_class) == asked
    assert len(asked) == 3


def test_interval_is_196_standard_errors() -> None:
    # mean 0.5, sample variance (0.01 + 0.01 + 0.09 + 0.09) / 3
    mean, half = mean_and_interval(np.array([0.4, 0.6, 0.2, 0.8]))
    assert mean == pytest.approx(0.5)
    assert half == pytest.approx(1.96 * (0.2 / 3) ** 0.5 / 2)


def test_one_task_has_no_interval() -> None:
    assert mean_and_interval(np.array([0.75])) == (0.75, None)
    result = evaluate_tasks(make_model()[0], make_sampler(), 1)
    assert result.ci95 is None
    assert result.ci95_unconditioned is None


def test_calibration_error_of_two_bins_by_hand() -> None:
    # confidences 0.9 and 0.91 (one right), 0.6 (right), 1.0 (wrong)
    p = np.array([[[0.9, 0.1], [0.09, 0.91], [0.6, 0.4], [1.0, 0.0]]], np.float32)
    labels = np.array([[0, 0, 0, 1]])
    expected = (abs(0.9 + 0.91 - 1) + abs(0.6 - 1) + abs(1.0 - 0)) / 4
    assert calibration_error(p, labels) == pytest.approx(expected, rel=1e-6)


def test_a_sure_and_right_model_is_calibrated() -> None:
    p = np.array([[[1.0, 0.0], [0.0, 1.0]]], np.float32)
    assert calibration_error(p, np.array([[0, 1]])) == 0.0
    assert calibration_error(p, np.array([[1, 0]])) == 1.0


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_leaves_mode_and_weights_alone(training: bool) -> None:
    model, _ = make_model()
    model.train(training)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    evaluate_tasks(model, make_sampler(), 2)
    assert all(module.training == training for module in model.modules())
    assert all(torch.equal(before[n], tensor) for n, tensor in model.state_dict().items())
    assert all(p.requires_grad for p in model.parameters())


def test_the_mode_comes_back_when_evaluation_fails() -> None:
    model, _ = make_model()
    model.train()

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate_tasks(model, make_sampler(), 2, progress=interrupt)
    assert model.training


def test_a_model_in_training_mode_is_evaluated_with_running_statistics() -> None:
    model, _ = make_model()
    evaluated = evaluate_tasks(model, make_sampler(), TASKS)
    trained = evaluate_tasks(model.train(), make_sampler(), TASKS)
    assert dataclasses.replace(trained, seconds=0) == dataclasses.replace(evaluated, seconds=0)


def test_the_seed_decides_the_result() -> None:
    model, _ = make_model()
    one, same, other = (
        dataclasses.replace(evaluate_tasks(model, make_sampler(seed), TASKS), seconds=0.0, seed=0)
        for seed in (4, 4, 5)
    )
    assert one == same
    assert one.confusion != other.confusion


def test_the_unconditioned_control_can_be_skipped() -> None:
    model, _ = make_model()
    both = evaluate_tasks(model, make_sampler(), TASKS)
    single = evaluate_tasks(model, make_sampler(), TASKS, controls=False)
    assert single.accuracy == both.accuracy
    assert single.accuracy_unconditioned is None


def test_progress_counts_tasks_and_the_result_is_json() -> None:
    seen = []
    result = evaluate_tasks(
        make_model()[0], make_sampler(), 30, progress=lambda done, total: seen.append((done, total))
    )
    assert len(seen) > 2
    assert seen == sorted(seen)
    assert seen[-1] == (30, 30)
    record = json.loads(json.dumps(result.to_json()))
    assert (record["way"], record["shot"], record["tasks"], record["queries"]) == (3, 2, 30, 20)
    assert record["accuracy"] == result.accuracy


def evaluate_on(
    store: ImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Tadam, Evaluation]:
    """A saved model of 16 pixels and 3 channels, and its evaluation on the images of a store."""
    monkeypatch.setattr(
        tadam.evaluation.measured_data, "load_split", lambda data, split, progress: store
    )
    model, info = make_model()
    save_model(tmp_path / "model.safetensors", model, info)
    path = tmp_path / "model.safetensors"
    return model, evaluate(path, "fc100", way=3, shot=2, tasks=TASKS, queries=20)


def test_images_of_another_size_are_scaled_to_the_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = make_store().images.repeat(2, axis=1).repeat(2, axis=2)
    store = dataclasses.replace(make_store(), images=images)
    model, found = evaluate_on(store, tmp_path, monkeypatch)
    assert (
        found.confusion
        == evaluate_tasks(model, EpisodeSampler(store, 3, 2, 20, 0), TASKS).confusion
    )


def test_images_with_other_channels_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = dataclasses.replace(make_store(), images=make_store().images[..., :1])
    with pytest.raises(UserError, match="takes images with 3 channels, but fc100 has 1"):
        evaluate_on(store, tmp_path, monkeypatch)


def test_zero_tasks_are_refused() -> None:
    with pytest.raises(UserError, match="at least 1 task, got 0"):
        evaluate_tasks(make_model()[0], make_sampler(), 0)


@pytest.mark.parametrize("conditioned", [True, False])
@pytest.mark.parametrize("size", [2, 4, TASKS + 1])  # equal shares, unequal ones, and none
def test_an_evaluation_shared_by_processes_gives_each_the_same_numbers(
    size: int, conditioned: bool
) -> None:
    model, _ = make_model(conditioning={"enabled": conditioned})
    alone = evaluate_tasks(model, make_sampler(), TASKS)
    results = in_threads(
        size, lambda ranks: evaluate_tasks(model, make_sampler(), TASKS, ranks=ranks)
    )
    for result in results:
        assert result.calibration_error == pytest.approx(alone.calibration_error, abs=1e-6)
        same: dict[str, Any] = {"seconds": 0.0, "calibration_error": 0.0}
        assert dataclasses.replace(result, **same) == dataclasses.replace(alone, **same)
