"""Each method's training step against the obvious one: task after task, in plain PyTorch.

The naive step draws the same tasks and images, changes them by the same augmentation, makes the
same updates at the same learning rate, and runs each task by itself. Its batch norm therefore sees
one task at a time, where ours sees all of them unless `backbone.statistics` is "task" (MAML and
Meta-LSTM always see one). With that setting the two are the same step, which a test checks for
every method, in 64 bits; the timings are of the recipes as they are.
"""

from contextlib import ExitStack
from functools import cache, partial

import numpy as np
import torch

from tadam import native
from tadam.benchmarks.results import TIMES, Measurement
from tadam.benchmarks.targets import METHOD_STEP
from tadam.benchmarks.worker import Worker, in_turn, shortest, speedup
from tadam.data.augment import augment
from tadam.data.episodes import AUGMENT_AUXILIARY, AUGMENT_TASKS, auxiliary_batch, bits
from tadam.data.store import ImageStore
from tadam.methods.base import InputSpec, Update, build_model
from tadam.nn.fast import plain_autograd
from tadam.recipes.method_recipes import MethodRecipe
from tadam.system.allocator import keep_large_blocks
from tadam.training.optimiser import clip_gradients, take_step
from tadam.training.schedule import learning_rate_factor
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
    config = trainer.config
    rate = config.optimiser.learning_rate * learning_rate_factor(t, config.schedule)
    for update in trainer.updates:
        trainer.model.zero_grad()
        with plain_autograd():
            if update.images:
                _naive_images(trainer, update, t)
            else:
                _naive_tasks(trainer, update, t)
        clip_gradients(trainer.model.parameters(), config.optimiser)
        for group in trainer.optimisers[update.name].param_groups:
            group["lr"] = rate
        take_step(trainer.optimisers[update.name])


def _naive_images(trainer: Trainer, update: Update, t: int) -> None:
    """A batch of images has no tasks; with statistics by task it has as many equal parts."""
    config, total = trainer.config, update.images
    rows, labels = auxiliary_batch(trainer.store, total, config.run.seed, t)
    source = bits(config.run.seed, AUGMENT_AUXILIARY, t)
    images = augment(torch.from_numpy(trainer.store.images[rows]), config.augment, source, 0, total)
    parts = config.episode.tasks if config.backbone.statistics == "task" else 1
    smoothing = config.optimiser.label_smoothing
    for some, targets in zip(
        images.tensor_split(parts), torch.from_numpy(labels).tensor_split(parts), strict=True
    ):
        loss = update.loss(update.logits(some), targets, smoothing)
        (loss * len(some) / total).backward()


def _naive_tasks(trainer: Trainer, update: Update, t: int) -> None:
    config, sampler = trainer.config, trainer.sampler
    tasks, shots = config.episode.tasks, sampler.way * sampler.shot
    for place in range(tasks):
        task = sampler.task(t * tasks + place)
        rows = np.concatenate([task.support, task.query], axis=1)[0]
        images = augment(
            torch.from_numpy(trainer.store.images[rows]),
            config.augment,
            bits(config.run.seed, AUGMENT_TASKS, t),
            place * len(rows),
            tasks * len(rows),
        )[None]
        labels, targets = (
            torch.from_numpy(found) for found in (task.support_labels, task.query_labels.ravel())
        )
        logits = update.logits(images[:, :shots], labels, images[:, shots:], sampler.way)
        loss = update.loss(logits.flatten(0, 1), targets, config.optimiser.label_smoothing) / tasks
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
