"""Accuracy on few-shot tasks, with interval, per class, calibration, and conditioning off."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tadam.data.episodes import Episode, EpisodeSampler, stacked
from tadam.data.store import ImageStore
from tadam.distributed.ranks import ALONE, Ranks, torchrun_ranks
from tadam.errors import RunFailed, UserError
from tadam.evaluation.measured_data import MeasuredData
from tadam.methods.tadam import Tadam
from tadam.metric import prototypes
from tadam.models.modelfile import load_model
from tadam.native.constant_weights import constant_weights
from tadam.nn.film import Film
from tadam.system.allocator import keep_large_blocks
from tadam.system.device import choose_device

#: Images embedded at once, so that memory does not grow with the split or the task.
BATCH = 256
#: Bins of confidence for the calibration error.
_BINS = 15

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Evaluation:
    """What a model achieved on a set of tasks; accuracies are fractions.

    Attributes:
        accuracy: Mean over tasks.
        ci95: Half the 95% interval of that mean over tasks; None for a single task.
        calibration_error: Expected calibration error of the probabilities, 15 equal bins.
        accuracy_unconditioned: The same tasks with conditioning off; None for a model without TEN.
        per_class: Share of each class's queries that were right, by class name.
        confusion: Queries by true class (row) and answer (column), in the order of `class_names`.
    """

    accuracy: float
    ci95: float | None
    calibration_error: float
    accuracy_unconditioned: float | None
    ci95_unconditioned: float | None
    way: int
    shot: int
    tasks: int
    queries: int
    seed: int
    seconds: float
    class_names: tuple[str, ...]
    per_class: dict[str, float]
    confusion: list[list[int]]
    dataset: str = ""
    split: str = ""
    model: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        return asdict(self)


def evaluate(
    model: str | Path,
    dataset: str | None = None,
    split: str = "test",
    way: int = 5,
    shot: int = 5,
    tasks: int = 500,
    queries: int = 100,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluates a saved model on random tasks of a split.

    Args:
        model: A shipped model's name, a run folder or a weights file.
        dataset: A name of the catalogue, or folder:PATH; that of the model's recipe if None.
            Scaled to the model's image size.
        split: train, val or test.
        way: Classes in a task.
        shot: Support images of a class.
        tasks: How many tasks.
        queries: Query images of a task, over all its classes.
        seed: Fixes the tasks.
        device: auto, cpu, cuda or mps.
        progress: Called with (done, in all), for images read and then for tasks.
    """
    with torchrun_ranks(remedy="evaluate again") as ranks:
        with ranks.agreed():
            network, info = load_model(model)
            data = MeasuredData(model, info, dataset)
            network.to(choose_device(device))
        ranks.first_here(lambda: data.load(split, progress))
        with ranks.agreed():
            store, source = data.load(split, progress), f"the {split} split of {data.name}"
            sampler = EpisodeSampler(store, way, shot, queries, seed, source=source)
        result = evaluate_tasks(network, sampler, tasks, progress=progress, ranks=ranks)
    return replace(result, dataset=data.name, split=split, model=str(model))


def evaluate_tasks(
    model: Tadam,
    sampler: EpisodeSampler,
    tasks: int,
    both: bool = True,
    progress: Progress | None = None,
    ranks: Ranks = ALONE,
) -> Evaluation:
    """Evaluates a model in memory on tasks 0..tasks-1 of a sampler.

    Args:
        model: Left in the mode (training or evaluation) that it came in.
        sampler: Draws the tasks.
        tasks: How many.
        both: Measure a conditioned model with conditioning off as well.
        progress: Called with (tasks done, tasks in all), of this process.
        ranks: The processes that share the tasks; each gets the result of all.
    """
    if tasks < 1:
        raise UserError(f"an evaluation needs at least 1 task, got {tasks}")
    keep_large_blocks()
    started = time.monotonic()
    was_training = model.training
    model.eval()
    try:
        with constant_weights():
            probabilities, plain, episode = _classify_shared(
                model, sampler, tasks, both, progress, ranks
            )
    finally:
        model.train(was_training)
    if not np.isfinite(probabilities).all():
        raise RunFailed("the model's answers are no numbers: its weights are damaged or diverged")
    right = probabilities.argmax(axis=2) == episode.query_labels  # (T, Q)
    accuracy, ci95 = mean_and_interval(right.mean(axis=1))
    off, off_ci95 = None, None
    if plain is not None:
        plain_right = plain.argmax(axis=2) == episode.query_labels
        off, off_ci95 = mean_and_interval(plain_right.mean(axis=1))
    names = sampler.store.class_names
    confusion = confusion_matrix(probabilities, episode, len(names))
    return Evaluation(
        accuracy=accuracy,
        ci95=ci95,
        calibration_error=calibration_error(probabilities, episode.query_labels),
        accuracy_unconditioned=off,
        ci95_unconditioned=off_ci95,
        way=sampler.way,
        shot=sampler.shot,
        tasks=tasks,
        queries=sampler.queries,
        seed=sampler.seed,
        seconds=time.monotonic() - started,
        class_names=names,
        per_class={
            name: float(row[k] / row.sum())
            for k, (name, row) in enumerate(zip(names, confusion, strict=True))
            if row.sum()
        },
        confusion=confusion.tolist(),
    )


def _classify_shared(
    model: Tadam,
    sampler: EpisodeSampler,
    tasks: int,
    both: bool,
    progress: Progress | None,
    ranks: Ranks,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32] | None, Episode]:
    """`_classify` with the tasks dealt out to the processes; each gets the answers to all."""
    own = ranks.share(tasks)
    part = None
    if own:
        part = _classify(model, sampler.starting_at(own.start), len(own), both, progress)
    answers, plain, episodes = zip(*(p for p in ranks.gather(part) if p is not None), strict=True)
    unconditioned = None if plain[0] is None else np.concatenate(plain)
    return np.concatenate(answers), unconditioned, stacked(episodes)


@torch.inference_mode()
def _classify(
    model: Tadam, sampler: EpisodeSampler, tasks: int, both: bool, progress: Progress | None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32] | None, Episode]:
    """Probabilities (T, Q, K) as the model means them, and with conditioning off if it has any."""
    episode = sampler.batch(0, tasks)
    rows, where = np.unique(
        np.concatenate([episode.support, episode.query], axis=1), return_inverse=True
    )
    # The first pass knows no task: each image that any task uses is embedded once.
    z = _embed(model, sampler.store, rows)
    device = z.device
    place = torch.from_numpy(where.reshape(tasks, -1)).to(device)
    labels = torch.from_numpy(episode.support_labels).to(device)
    shots, task_rows = episode.support.shape[1], rows[where].reshape(tasks, -1)
    at_once = max(1, BATCH // task_rows.shape[1])
    conditioned, plain = [], []
    for start in range(0, tasks, at_once):
        some = slice(start, min(start + at_once, tasks))
        support, query = z[place[some, :shots]], z[place[some, shots:]]  # (T, N, D), (T, Q, D)
        if model.ten is None or both:
            c = prototypes(support, labels[some], sampler.way)
            plain.append(model.metric(query, c).softmax(dim=2))
        if model.ten is not None:
            film = model.film_from(support, labels[some], sampler.way)
            zt = _embed(model, sampler.store, task_rows[some].ravel(), film)
            zt = zt.unflatten(0, task_rows[some].shape)
            c = prototypes(zt[:, :shots], labels[some], sampler.way)
            conditioned.append(model.metric(zt[:, shots:], c).softmax(dim=2))
        if progress:
            progress(some.stop, tasks)
    unconditioned = torch.cat(plain).cpu().numpy() if plain else None
    if model.ten is None:
        assert unconditioned is not None
        return unconditioned, None, episode
    return torch.cat(conditioned).cpu().numpy(), unconditioned, episode


def _embed(
    model: Tadam, store: ImageStore, rows: npt.NDArray[np.int64], film: Film | None = None
) -> Tensor:
    """(N, D); with FiLM of several tasks there are at most `BATCH` rows, else any number."""
    parts = [
        model.embed(images_at(store, chunk, model.backbone.pixel_mean.device), film)
        for chunk in np.array_split(rows, -(-len(rows) // BATCH))
    ]
    return torch.cat(parts)


def images_at(
    store: ImageStore, rows: npt.NDArray[np.int64], device: torch.device | None = None
) -> Tensor:
    """Images of a store as (N, C, H, W) uint8, channels last in memory."""
    return torch.from_numpy(store.images[rows]).to(device).permute(0, 3, 1, 2)


def mean_and_interval(values: npt.NDArray[np.float64]) -> tuple[float, float | None]:
    """Mean over tasks and half its 95% interval (normal approximation)."""
    if len(values) < 2:
        return float(values.mean()), None
    return float(values.mean()), float(1.96 * values.std(ddof=1) / len(values) ** 0.5)


def confusion_matrix(
    probabilities: npt.NDArray[np.float32], episode: Episode, classes: int
) -> npt.NDArray[np.int64]:
    """Counts of (true class, answer) over all tasks, in the numbering of the split."""
    true = np.take_along_axis(episode.classes, episode.query_labels, axis=1)
    answer = np.take_along_axis(episode.classes, probabilities.argmax(axis=2), axis=1)
    matrix = np.zeros((classes, classes), np.int64)
    np.add.at(matrix, (true.ravel(), answer.ravel()), 1)
    return matrix


def calibration_error(
    probabilities: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]
) -> float:
    """Expected calibration error: |confidence - accuracy| averaged over bins by their share."""
    confidence = probabilities.max(axis=2).ravel().astype(np.float64)
    right = (probabilities.argmax(axis=2) == labels).ravel()
    bins = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    gaps = np.bincount(bins, weights=confidence - right, minlength=_BINS)
    return float(np.abs(gaps).sum() / len(right))
