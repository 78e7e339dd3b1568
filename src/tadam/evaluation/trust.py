"""How far a classifier's probabilities and its "none of these" can be trusted, on random tasks."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tadam.classify.classifier import FewShotClassifier
from tadam.classify.inference import answer, reader_of
from tadam.config import DataConfig
from tadam.data.catalogue import load_split
from tadam.data.episodes import EpisodeSampler
from tadam.errors import UserError
from tadam.evaluation.scores import calibration_error, mean_and_interval
from tadam.methods.tadam import Tadam
from tadam.models.resolve import resolve_model
from tadam.nn.backbone import Backbone
from tadam.system.device import choose_device
from tadam.system.progress import Progress


@dataclass(frozen=True)
class Trust:
    """Means over tasks; half of a task's queries come from classes outside the task.

    Attributes:
        accuracy: On queries of known classes.
        calibration_error: Of those queries' probabilities, 15 equal bins, all tasks pooled.
        auroc: Probability that an image of an unknown class is stranger than one of a known class.
        auroc_ci95: Half-width of its mean's 95% interval over tasks; None for a single task.
        kept: Share of known images that `reject=True` does not reject.
        caught: Share of unknown images that it rejects.
    """

    accuracy: float
    calibration_error: float
    auroc: float
    auroc_ci95: float | None
    kept: float
    caught: float

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        return asdict(self)


def measure_trust(
    model: str | Path | Tadam | Backbone | None,
    dataset: str,
    split: str = "test",
    way: int = 5,
    shot: int = 5,
    tasks: int = 200,
    queries: int = 100,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
) -> Trust:
    """Fits a classifier to each of many random tasks and tests it on unknown classes too.

    Args:
        model: What `FewShotClassifier` takes.
        dataset: A name from the catalogue.
        split: train, val or test.
        way: Known classes per task; there are as many unknown ones.
        shot: Support images per known class.
        tasks: Number of tasks.
        queries: Query images per task, known and unknown.
        seed: Fixes the tasks.
        device: auto, cpu, cuda or mps.
        progress: Called with (tasks done, total tasks).
    """
    if tasks < 1:
        raise UserError(f"a measurement needs at least 1 task, got {tasks}")
    store = load_split(DataConfig(dataset), split)
    source = f"the {split} split of {dataset}"
    sampler = EpisodeSampler(store, 2 * way, shot, queries, seed, balanced=True, source=source)
    network, _ = resolve_model(model, choose_device(device))
    rows = []
    calibrated, truth = [], []
    for number in range(tasks):
        task = sampler.task(number)
        support = task.support[0, task.support_labels[0] < way]
        labels = task.support_labels[0, task.support_labels[0] < way]
        classifier = FewShotClassifier(network, device=device).fit(store.images[support], labels)
        predictor = classifier.predictor_
        images = list(store.images[task.query[0]])
        answers = answer(predictor, reader_of(predictor.preprocess).batches(images))
        known = task.query_labels[0] < way
        strange = answers.strange(classifier.reject_threshold_)
        right = answers.best[known] == task.query_labels[0, known]
        area = auroc(answers.strangeness[known], answers.strangeness[~known])
        rows.append((right.mean(), area, 1 - strange[known].mean(), strange[~known].mean()))
        calibrated.append(answers.probabilities[known])
        truth.append(task.query_labels[0, known])
        if progress:
            progress(number + 1, tasks)
    accuracy, _, kept, caught = np.mean(rows, axis=0).tolist()
    area, interval = mean_and_interval(np.array([row[1] for row in rows]))
    return Trust(accuracy, _pooled(calibrated, truth), area, interval, kept, caught)


def auroc(known: npt.ArrayLike, unknown: npt.ArrayLike) -> float:
    """Probability that an `unknown` score is above a `known` one; a tie counts half."""
    low = np.sort(np.asarray(known))
    high = np.asarray(unknown)
    below = np.searchsorted(low, high, "left") + np.searchsorted(low, high, "right")
    return float(below.mean() / (2 * len(low)))


def _pooled(
    probabilities: Sequence[npt.NDArray[np.float32]], labels: Sequence[npt.NDArray[np.int64]]
) -> float:
    return calibration_error(np.concatenate(probabilities)[None], np.concatenate(labels)[None])
