"""Each method's training step against the obvious one: task after task, in plain PyTorch."""

from contextlib import ExitStack
from functools import cache, partial

import numpy as np
import torch

from tadam import native
from tadam.benchmarks.results import TIMES, Measurement
from tadam.benchmarks.targets import METHOD_STEP
from tadam.benchmarks.worker import Worker, in_turn, shortest, speedup
from tadam.data.episodes import auxiliary_batch
from tadam.data.store import ImageStore
from tadam.methods.base import InputSpec, Update, build_model
from tadam.nn.fast import plain_autograd
from tadam.recipes.method_recipes import MethodRecipe
from tadam.system.allocator import keep_large_blocks
from tadam.training.optimiser import clip_gradients, take_step
from tadam.training.trainer import Trainer

_CLASSES, _IMAGES_PER_CLASS, _SIDE = 20, 40, 32
#: The tasks of a step, the same for every method: 4 tasks, 5-way 5-shot, 5 queries per class.
_EPISODE = {"way": 5, "shot": 5, "queries": 25, "tasks": 4, "balanced_queries": True}


@cache  # one per process: all turns of a measurement share a trainer
def _trainer(row: str) -> Trainer:
    """A trainer of the method's cpu recipe for FC100, on random images of its shape."""
    config = MethodRecipe(row, "fc100", 5, cpu=True).config().updated({"episode": _EPISODE})
    shape = (_CLASSES * _IMAGES_PER_CLASS, _SIDE, _SIDE, 3)
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    names = [str(k) for k in range(_CLASSES)]
    store = ImageStore.from_counts(images, [_IMAGES_PER_CLASS] * _CLASSES, names)
    classes = _CLASSES if config.method.has_class_head(config) else 0
    model = build_model(config, InputSpec(3, _SIDE, classes))
    model.initialise(config, *store.channel_statistics(most=1000))
    return Trainer(config, model, store, torch.device("cpu"))


def our_method_seconds(row: str, seconds: float) -> float:
    """Time of one of our steps; like the next one, runs in a worker."""
    keep_large_blocks()
    trainer = _trainer(row)
    return shortest(lambda t: trainer.step(t, only=_every(trainer)), seconds)


def naive_method_seconds(row: str, seconds: float) -> float:
    """Time of one naive step."""
    trainer = _trainer(row)
    return shortest(partial(naive_method_step, trainer), seconds)


def _every(trainer: Trainer) -> list[str]:
    return [update.name for update in trainer.updates]


def naive_method_step(trainer: Trainer, t: int) -> None:
    """The same updates, for each task alone; their gradients add up."""
    for update in trainer.updates:
        trainer.model.zero_grad()
        with plain_autograd():
            if update.images:
                _naive_images(trainer, update, t)
            else:
                _naive_tasks(trainer, update, t)
        clip_gradients(trainer.model.parameters(), trainer.config.optimiser)
        take_step(trainer.optimisers[update.name])


def _naive_images(trainer: Trainer, update: Update, t: int) -> None:
    """A batch of images has no tasks to take apart."""
    rows, labels = auxiliary_batch(trainer.store, update.images, trainer.config.run.seed, t)
    images = torch.from_numpy(trainer.store.images[rows]).permute(0, 3, 1, 2)
    update.loss(update.logits(images), torch.from_numpy(labels), 0.0).backward()


def _naive_tasks(trainer: Trainer, update: Update, t: int) -> None:
    tasks, sampler = trainer.config.episode.tasks, trainer.sampler
    for number in range(t * tasks, (t + 1) * tasks):
        task = sampler.task(number)
        support, query = (
            torch.from_numpy(trainer.store.images[rows]).permute(0, 1, 4, 2, 3)
            for rows in (task.support, task.query)
        )
        labels = torch.from_numpy(task.support_labels)
        logits = update.logits(support, labels, query, sampler.way).flatten(0, 1)
        loss = update.loss(logits, torch.from_numpy(task.query_labels.ravel()), 0.0) / tasks
        loss.backward()


def method_against_naive(row: str, threads: int, rounds: int, seconds: float) -> Measurement:
    """Times both steps in turn."""
    kinds = {"ours": our_method_seconds, "naive": naive_method_seconds}
    with ExitStack() as stack:
        variants = {
            kind: partial(stack.enter_context(Worker(threads, native=kind == "ours")), work, row)
            for kind, work in kinds.items()
        }
        times = in_turn(variants, rounds, seconds)
    raw = {"seconds": times["ours"], "naive_seconds": times["naive"]}
    note = "" if native.available() else "without the native core"
    value = speedup(times["ours"], times["naive"])
    return Measurement("methods", METHOD_STEP, row, value, TIMES, note=note, raw=raw)
