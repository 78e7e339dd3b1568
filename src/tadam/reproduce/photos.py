"""Our metric against what scikit-learn makes of the same embeddings, on photos of one's own.

    tadam reproduce photos birds/ clothing/

Each folder is embedded once; then random tasks are answered by all methods from the same
embeddings. Where a folder has classes that a task leaves out, their photos measure "none of these".
"""

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tadam import native
from tadam.classify.classifier import FewShotClassifier
from tadam.classify.metric_fit import fit_metric
from tadam.config import DataConfig
from tadam.data.catalogue import load_split
from tadam.errors import UserError
from tadam.evaluation.scores import calibration_error, mean_and_interval
from tadam.evaluation.trust import auroc
from tadam.reproduce.rivals import RIVALS, Labels, Vectors, regression, unit
from tadam.system.machine import machine
from tadam.system.progress import Progress

OURS = "ours"
#: Logistic regression on embeddings as our metric sees them: what is left of its lead then.
CONTROL = "logistic regression, our centring and power"
WAYS, SHOTS = (5, 20, 50), (1, 2, 5, 10, 20)
_QUERIES = 10
_PER_CLASS = 60  # of a data set, which may have hundreds
#: Tasks of a cell: fewer where they have more classes, whose queries average more.
_CLASSES_IN_ALL = 200


@dataclass(frozen=True)
class PhotoCell:
    """All methods on the tasks of one kind; shares are fractions, times are of one task.

    Attributes:
        source: The folder's or the data set's name.
        way: Classes in a task.
        shot: Labelled photos of each.
        tasks: Number of tasks.
        accuracy: Mean and half its 95% interval, by method.
        lead: Of ours over each other method, paired by task, likewise.
        seconds: To fit and predict, by method.
        calibration_error: Of our probabilities.
        auroc: Of our strangeness, photos of other classes against those of the task; None without.
        kept: Share of the task's photos that are not rejected.
        caught: Share of others' photos that are.
    """

    source: str
    way: int
    shot: int
    tasks: int
    accuracy: dict[str, tuple[float, float | None]]
    lead: dict[str, tuple[float, float | None]]
    seconds: dict[str, float]
    calibration_error: float
    auroc: float | None
    kept: float
    caught: float | None


@dataclass(frozen=True)
class PhotoResults:
    """What `compare_photos` found, and with what."""

    model: str
    seed: int
    machine: dict[str, Any]
    minutes: float
    cells: list[PhotoCell] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        return asdict(self)


def compare_photos(
    sources: Sequence[str],
    model: str = "imagenet",
    ways: Sequence[int] = WAYS,
    shots: Sequence[int] = SHOTS,
    effort: float = 1.0,
    seed: int = 0,
    rivals: bool = True,
    progress: Progress | None = None,
) -> PhotoResults:
    """Answers random tasks with our metric and with its rivals.

    Args:
        sources: Folders of class folders, or names of data sets, of which the test classes count.
        model: Embeds the photos.
        ways: Numbers of classes; one beyond what a source has becomes all it has.
        shots: Numbers of photos; those that leave fewer than 4 queries of a class are left out.
        effort: Factor on the number of tasks.
        seed: Fixes the tasks.
        rivals: Whether the others answer too, which takes most of the time.
        progress: Called with (cells done, total cells).
    """
    started, todo = time.perf_counter(), []
    for source in sources:
        z, labels = _embedded(source, model)
        classes, fewest = int(labels.max()) + 1, int(np.bincount(labels).min())
        for way in sorted({min(way, classes) for way in ways}):
            todo += [(source, z, labels, way, shot) for shot in shots if shot + 4 <= fewest]
    if not todo:
        raise UserError("no task fits these photos: give more photos of each class")
    cells = []
    warnings.filterwarnings("ignore", module="sklearn")  # few images of many classes are our point
    for number, (source, z, labels, way, shot) in enumerate(todo, start=1):
        count = max(3, round(effort * _CLASSES_IN_ALL / way))
        cells.append(_cell(Path(source).name, z, labels, way, shot, count, seed, rivals))
        if progress:
            progress(number, len(todo))
    minutes = (time.perf_counter() - started) / 60
    return PhotoResults(
        model, seed, machine(torch.get_num_threads(), native.core()), minutes, cells
    )


def _embedded(source: str, model: str) -> tuple[Vectors, Labels]:
    """Embeddings and classes of all photos."""
    classifier = FewShotClassifier(model, cache=True)
    if Path(source).is_dir():
        classifier.fit(source)
    else:
        store = load_split(DataConfig(source), "test")
        counts = np.minimum(store.counts, _PER_CLASS)
        rows = [
            first + i for first, n in zip(store.offsets, counts, strict=False) for i in range(n)
        ]
        classifier.fit(store.images[rows], np.repeat(np.arange(len(counts)), counts))
    return classifier.support_embeddings_.astype(np.float64), classifier.support_labels_


def _tasks(
    labels: Labels, way: int, shot: int, count: int, seed: int
) -> Iterator[tuple[Labels, Labels, Labels, Labels, Labels]]:
    """Rows and classes of the support set, rows and classes of the queries, rows of others."""
    dice = np.random.default_rng([seed, way, shot])
    for _ in range(count):
        chosen = dice.choice(int(labels.max()) + 1, way, replace=False)
        drawn = [dice.permutation(np.flatnonzero(labels == k)) for k in chosen]
        support = [rows[:shot] for rows in drawn]
        queries = [rows[shot : shot + _QUERIES] for rows in drawn]
        others = dice.permutation(np.flatnonzero(~np.isin(labels, chosen)))
        yield (
            np.concatenate(support),
            np.repeat(np.arange(way), shot),
            np.concatenate(queries),
            np.repeat(np.arange(way), [len(rows) for rows in queries]),
            others[: way * _QUERIES],
        )


def _cell(
    source: str,
    z: Vectors,
    labels: Labels,
    way: int,
    shot: int,
    count: int,
    seed: int,
    rivals: bool,
) -> PhotoCell:
    right: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    probabilities, truths, rejected = [], [], []
    for rows, classes, queries, truth, others in _tasks(labels, way, shot, count, seed):
        started = time.perf_counter()
        support = torch.from_numpy(z[rows])
        metric, _ = fit_metric(support, torch.from_numpy(classes), way)
        p = metric.probabilities(torch.from_numpy(z[queries]).float()).numpy()
        seconds.setdefault(OURS, []).append(time.perf_counter() - started)
        right.setdefault(OURS, []).append(float((p.argmax(axis=1) == truth).mean()))
        probabilities.append(p)
        truths.append(truth)
        strange = metric.strangeness(torch.from_numpy(z[np.r_[queries, others]]).float()).numpy()
        rejected.append((strange[: len(queries)], strange[len(queries) :]))
        if not rivals:
            continue
        for name, rival in RIVALS.items():
            if shot == 1 and name == "shrinkage LDA":
                continue
            started = time.perf_counter()
            answers = rival(unit(z[rows]), classes, unit(z[queries]))
            seconds.setdefault(name, []).append(time.perf_counter() - started)
            right.setdefault(name, []).append(float((answers == truth).mean()))
        metric = metric.double()
        seen = [metric.standardised(torch.from_numpy(z[r])).numpy() for r in (rows, queries)]
        control = regression(seen[0], classes, seen[1])
        right.setdefault(CONTROL, []).append(float((control == truth).mean()))
    leads = {
        name: mean_and_interval(np.array(right[OURS]) - np.array(values))
        for name, values in right.items()
        if name != OURS
    }
    unknown = [u for _, u in rejected if len(u)]
    return PhotoCell(
        source,
        way,
        shot,
        count,
        {name: mean_and_interval(np.array(values)) for name, values in right.items()},
        leads,
        {name: float(np.median(values)) for name, values in seconds.items()},
        calibration_error(np.concatenate(probabilities)[None], np.concatenate(truths)[None]),
        float(np.mean([auroc(k, u) for k, u in rejected if len(u)])) if unknown else None,
        float(np.mean([(k <= 1).mean() for k, _ in rejected])),
        float(np.mean([(u > 1).mean() for u in unknown])) if unknown else None,
    )
