"""Accuracy on few-shot tasks: interval, per class, calibration, and what conditioning brings."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tadam.data.episodes import EpisodeSampler
from tadam.distributed.ranks import ALONE, Ranks, torchrun_ranks
from tadam.errors import RunFailed, UserError
from tadam.evaluation.answers import MEAN, TaskAnswers, answer_tasks, mean_task_vectors
from tadam.evaluation.conditioning import conditioning_notes
from tadam.evaluation.measured_data import MeasuredData
from tadam.evaluation.scores import (
    accuracy_and_interval,
    calibration_error,
    confusion_matrix,
    difference_and_interval,
)
from tadam.methods.base import Method
from tadam.models.modelfile import ModelInfo, load_model
from tadam.nn.fast import constant_weights
from tadam.system.allocator import keep_large_blocks
from tadam.system.device import choose_device
from tadam.system.memory import require_memory
from tadam.system.progress import Progress

#: Training tasks whose mean vectors are a control.
_TRAINING_TASKS = 100


@dataclass(frozen=True)
class Evaluation:
    """How a model did on a set of tasks; accuracies are fractions.

    Attributes:
        accuracy: Mean over tasks.
        ci95: Half-width of its 95% interval over tasks; None for a single task.
        calibration_error: Expected calibration error of the probabilities, 15 equal bins.
        accuracy_unconditioned: The same tasks with conditioning off; None for a model without TEN.
        per_class: Share of each class's queries classified correctly, by class name.
        confusion: Query counts by true class (row) and answer (column), in `class_names` order.
        controls: For each of the method's controls, its accuracy and interval, and the accuracy
            minus that, paired over tasks, with its interval.
        within_family: Share of the tasks whose classes are all of one family.
        balanced: Whether each class had as many queries.
        notes: Sentences about what the numbers show.
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
    controls: dict[str, dict[str, float | None]] = field(default_factory=dict)
    dataset: str = ""
    split: str = ""
    model: str = ""
    within_family: float = 0.0
    balanced: bool = False
    notes: tuple[str, ...] = ()

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
    within_family: float = 0.0,
    balanced: bool = False,
) -> Evaluation:
    """Evaluates a saved model on random tasks of a split.

    Args:
        model: A shipped model's name, a run folder or a weights file.
        dataset: A name from the catalogue, or folder:PATH; None for that of the model's recipe.
            Images are scaled to the model's size.
        split: train, val or test.
        way: Classes per task.
        shot: Support images per class.
        tasks: Number of tasks.
        queries: Query images per task, over all its classes.
        seed: Fixes the tasks.
        device: auto, cpu, cuda or mps.
        progress: Called with (done, total), first for images read and then for tasks.
        within_family: Share of tasks whose classes are all of one family, such as a superclass.
        balanced: Whether each class has as many queries, instead of a random share of them.
    """
    if not 0 <= within_family <= 1:
        raise UserError(f"`within_family` must be between 0 and 1, got {within_family}")
    with torchrun_ranks(remedy="evaluate again") as ranks:
        with ranks.agreed():
            network, info = load_model(model)
            data = MeasuredData(model, info, dataset)
            network.to(choose_device(device))
        ranks.first_here(lambda: data.load(split, progress))
        with ranks.agreed():
            store, source = data.load(split, progress), f"the {split} split of {data.name}"
            sampler = EpisodeSampler(
                store, way, shot, queries, seed, balanced, source, within_family
            )
            training = training_tasks(model, info) if MEAN in network.controls() else None
        result = evaluate_tasks(
            network, sampler, tasks, progress=progress, ranks=ranks, training=training
        )
    notes = result.notes
    if MEAN in network.controls() and training is None:
        own = info.config.data.name
        notes += (
            f"The mean vectors of training tasks were not measured, as the training classes of "
            f"{own} could not be read.",
        )
    return replace(result, dataset=data.name, split=split, model=str(model), notes=notes)


def check_tasks(sampler: EpisodeSampler, tasks: int) -> None:
    """Refuses tasks whose rows and probabilities alone do not fit into memory."""
    images = sampler.way * sampler.shot + sampler.queries
    require_memory(
        tasks * (16 * images + 4 * sampler.queries * sampler.way),
        f"{tasks:,} tasks to evaluate",
        "ask for fewer",
    )


def evaluate_tasks(
    model: Method,
    sampler: EpisodeSampler,
    tasks: int,
    controls: bool = True,
    progress: Progress | None = None,
    ranks: Ranks = ALONE,
    training: EpisodeSampler | None = None,
) -> Evaluation:
    """Evaluates a model in memory on tasks 0..tasks-1 of a sampler.

    Args:
        model: Returned to the mode (training or evaluation) that it came in.
        sampler: Draws the tasks.
        tasks: Number of tasks.
        controls: Also measure the method's controls, such as a model with conditioning off.
        progress: Called with (tasks done, total tasks) of this process.
        ranks: The processes that share the tasks; each of them gets the whole result.
        training: Draws tasks that the model was trained on; without it, the control that uses
            their mean is left out.
    """
    if tasks < 1:
        raise UserError(f"an evaluation needs at least 1 task, got {tasks}")
    check_tasks(sampler, tasks)
    keep_large_blocks()
    started = time.monotonic()
    wanted = tuple(c for c in model.controls() if c != MEAN or training) if controls else ()
    was_training = model.training
    model.eval()
    try:
        with constant_weights():
            mean = None
            if training and MEAN in wanted:
                mean = mean_task_vectors(model, training, _TRAINING_TASKS)
            answers = answer_tasks(model, sampler, tasks, wanted, progress, ranks, mean)
    finally:
        model.train(was_training)
    notes = (*model.notes(sampler.shot), *sampler.notes())
    return _scored(answers, sampler, time.monotonic() - started, notes)


def _scored(
    answers: TaskAnswers, sampler: EpisodeSampler, seconds: float, notes: tuple[str, ...]
) -> Evaluation:
    probabilities, episode = answers.probabilities, answers.episode
    if not np.isfinite(probabilities).all():
        raise RunFailed(
            "the model's outputs are NaN or infinite: its weights are damaged or diverged"
        )
    accuracy, ci95 = accuracy_and_interval(probabilities, episode)
    measured = {name: _control(answers, name) for name in answers.controls}
    off = measured.get("unconditioned", {})
    names = sampler.store.class_names
    confusion = confusion_matrix(probabilities, episode, len(names))
    return Evaluation(
        accuracy=accuracy,
        ci95=ci95,
        calibration_error=calibration_error(probabilities, episode.query_labels),
        accuracy_unconditioned=off.get("accuracy"),
        ci95_unconditioned=off.get("ci95"),
        way=sampler.way,
        shot=sampler.shot,
        tasks=len(probabilities),
        queries=sampler.queries,
        seed=sampler.seed,
        seconds=seconds,
        class_names=names,
        per_class=_per_class(names, confusion),
        confusion=confusion.tolist(),
        controls=measured,
        within_family=sampler.within_family,
        balanced=sampler.balanced,
        notes=(*conditioning_notes(measured), *notes),
    )


def training_tasks(model: str | Path, info: ModelInfo) -> EpisodeSampler | None:
    """Tasks of the classes that a model was trained on, not turned; None without their data."""
    episode = info.config.episode
    try:
        store = MeasuredData(model, info, None).load("train")
        share, seed = episode.within_family, info.config.run.seed
        return EpisodeSampler(store, episode.way, episode.shot, 1, seed, within_family=share)
    except UserError:
        return None


def _control(answers: TaskAnswers, name: str) -> dict[str, float | None]:
    accuracy, ci95 = accuracy_and_interval(answers.controls[name], answers.episode)
    difference, half = difference_and_interval(
        answers.probabilities, answers.controls[name], answers.episode
    )
    return {
        "accuracy": accuracy,
        "ci95": ci95,
        "difference": difference,
        "difference_ci95": half,
    }


def _per_class(names: Sequence[str], confusion: npt.NDArray[np.int64]) -> dict[str, float]:
    rows = enumerate(zip(names, confusion, strict=True))
    return {name: float(row[k] / row.sum()) for k, (name, row) in rows if row.sum()}
