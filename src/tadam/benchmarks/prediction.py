"""A fitted classifier: prediction against a loop over images, and the cost of fitting."""

from contextlib import ExitStack
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tadam.benchmarks.results import TIMES, Measurement
from tadam.benchmarks.targets import FIT, PREDICTION
from tadam.benchmarks.worker import Worker, in_turn, shortest, speedup
from tadam.benchmarks.workload import Setup
from tadam.classify.classifier import FewShotClassifier
from tadam.data.decode import Pixels
from tadam.errors import RunFailed
from tadam.methods.tadam import Tadam
from tadam.nn.conv_unit import initialise_convolutions
from tadam.nn.film import Film
from tadam.system.allocator import keep_large_blocks

#: Images classified; the loop takes equally long for each, so only some are timed.
_IMAGES, _LOOPED = 256, 32
#: Largest allowed difference in a probability; Winograd rounds differently.
_TOLERANCE = 1e-3

_Probabilities = npt.NDArray[np.float32]


class Task(NamedTuple):
    """A conditioned model, its support set and new images, uint8 (N, H, W, C)."""

    model: Tadam
    support: Pixels
    labels: npt.NDArray[np.int64]
    images: Pixels


@cache
def _task(setup: Setup) -> Task:
    keep_large_blocks()
    store = setup.store()
    model = setup.model(store).eval()
    # As if trained: features differ between images, and TEN has an effect.
    initialise_convolutions(model.backbone, "he", torch.Generator().manual_seed(0))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("gamma0", "beta0")):
                parameter.fill_(0.1)
    shots = np.arange(setup.shot)
    rows = np.concatenate([k * setup.images_per_class + shots for k in range(setup.classes)])
    labels = np.repeat(np.arange(setup.classes), setup.shot)
    return Task(model, store.images[rows], labels, store.images[-_IMAGES:])


def _tensor(images: Pixels) -> Tensor:
    return torch.from_numpy(images).permute(0, 3, 1, 2)


@cache
def _fitted(setup: Setup) -> FewShotClassifier:
    task = _task(setup)
    return FewShotClassifier(task.model).fit(task.support, task.labels)


@cache
@torch.inference_mode()
def _conditioned(setup: Setup) -> Film | None:
    """The task's FiLM, for the unfolded model."""
    task = _task(setup)
    labels, support = torch.from_numpy(task.labels)[None], _tensor(task.support)
    return task.model.film_from(task.model.embed(support)[None], labels, setup.classes)


@torch.inference_mode()
def looped(setup: Setup) -> _Probabilities:
    """Probabilities of a few images, (n, K), one by one; like those below, runs in a worker."""
    model, film = _task(setup).model, _conditioned(setup)
    metric, rows = _fitted(setup).predictor_.metric, []
    for image in _task(setup).images[:_LOOPED]:
        z = model.embed(_tensor(image[None]), film)
        rows.append(metric.probabilities(z))
    return torch.cat(rows).numpy()


def batched(setup: Setup) -> _Probabilities:
    """Probabilities of all images from a fitted classifier, (N, K)."""
    return _fitted(setup).predict_proba(_task(setup).images)


def loop_seconds(setup: Setup, seconds: float) -> float:
    """Time per image in the loop."""
    return shortest(lambda t: looped(setup), seconds) / min(_LOOPED, len(_task(setup).images))


def batch_seconds(setup: Setup, seconds: float) -> float:
    """Time per image in batches."""
    return shortest(lambda t: batched(setup), seconds) / len(_task(setup).images)


def fit_seconds(setup: Setup, seconds: float) -> float:
    """Time to fit a classifier."""
    task = _task(setup)
    classifier = FewShotClassifier(task.model)
    return shortest(lambda t: classifier.fit(task.support, task.labels), seconds)


@torch.inference_mode()
def pass_seconds(setup: Setup, seconds: float) -> float:
    """Time to pass the support set through the conditioned model, all at once."""
    task, film = _task(setup), _conditioned(setup)
    support = _tensor(task.support)
    return shortest(lambda t: task.model.embed(support, film), seconds)


def measure(setup: Setup, threads: int, rounds: int, seconds: float) -> list[Measurement]:
    """Times prediction and fitting, each in turn with its baseline.

    Args:
        setup: Sets the classes and shots of the task.
        threads: Threads of each process.
        rounds: Number of turns.
        seconds: Length of a turn.
    """
    where = f"width {setup.width}"
    kinds = {
        "batched": batch_seconds,
        "looped": loop_seconds,
        "fit": fit_seconds,
        "pass": pass_seconds,
    }
    with ExitStack() as stack:
        workers = {kind: stack.enter_context(Worker(threads)) for kind in kinds}
        one, other = workers["looped"](looped, setup), workers["batched"](batched, setup)
        difference = np.abs(one - other[: len(one)]).max()
        if not difference <= _TOLERANCE:
            raise RunFailed(f"predictions differ from the loop's by {difference:.2g}")
        variants = {kind: partial(workers[kind], work, setup) for kind, work in kinds.items()}
        times = in_turn(variants, rounds, seconds)
    task = f"{setup.classes} classes, {setup.shot} shots"
    prediction = Measurement(
        "prediction",
        PREDICTION,
        where,
        speedup(times["batched"], times["looped"]),
        TIMES,
        note=f"{_IMAGES} images, {task}; folded and batched, against unfolded and one by one",
        raw={"seconds": times["batched"], "loop_seconds": times["looped"]},
    )
    fit = Measurement(
        "prediction",
        FIT,
        where,
        speedup(times["pass"], times["fit"]),
        TIMES,
        lower_is_better=True,
        note=f"{task}; measured in forward passes of the unfolded model over the support set",
        raw={"seconds": times["fit"], "pass_seconds": times["pass"]},
    )
    return [prediction, fit]
