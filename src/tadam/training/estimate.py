"""How long a run will take on this machine, from a few trial steps and a small validation."""

import itertools
import statistics
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tadam import native
from tadam.config import Config
from tadam.data.episodes import EpisodeSampler
from tadam.errors import UserError
from tadam.evaluation.tasks import evaluate_tasks
from tadam.methods.base import Method
from tadam.recipes import resolve
from tadam.system.memory import peak_bytes
from tadam.system.torchrun import place
from tadam.training.run import prepare
from tadam.training.schedule import validates_after
from tadam.training.trainer import Trainer

#: Tasks in the trial validation, and the most steps to time of each kind.
_TASKS, _STEPS = 4, 20


@dataclass(frozen=True)
class Estimate:
    """What a run will need, not counting the time to write checkpoints and read images.

    Attributes:
        steps: Few-shot updates, one per step.
        auxiliary_updates: Steps that also make an auxiliary update.
        validations: How many there are if patience does not end the run early.
        step_seconds: Time of one few-shot update.
        auxiliary_seconds: Time that an auxiliary update adds.
        validation_seconds: Time of one validation, scaled up from the trial by images embedded.
        peak_bytes: Peak memory of the trial; None where the system does not report it.
        device: Where the trial ran; on a CPU, with how many threads and which core.
        patience: Validations without a new best after which the run ends; 0 for never.
    """

    steps: int
    auxiliary_updates: int
    validations: int
    step_seconds: float
    auxiliary_seconds: float
    validation_seconds: float
    peak_bytes: int | None
    device: str
    patience: int

    @property
    def seconds(self) -> float:
        """Time of the whole run."""
        return (
            self.steps * self.step_seconds
            + self.auxiliary_updates * self.auxiliary_seconds
            + self.validations * self.validation_seconds
        )

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        return {**asdict(self), "seconds": self.seconds}


def estimate(
    recipe: str | Path | Config,
    *,
    dataset: str | None = None,
    settings: Sequence[str] = (),
    device: str = "auto",
    trial_seconds: float = 4.0,
) -> Estimate:
    """Times a few steps of a recipe without writing anything; arguments as for `train`.

    Args:
        recipe: A shipped recipe's name, a TOML file, or a `Config`.
        dataset: Replaces the recipe's data set.
        settings: Changes such as `backbone.width=16`, applied in order.
        device: auto, cpu, cuda or mps.
        trial_seconds: Time to spend on each kind of step, with and without an auxiliary update.
    """
    if place().size > 1:
        raise UserError("an estimate covers a single process: run it without torchrun")
    config = resolve(recipe, settings, dataset)
    trainer, validation = prepare(config, device)
    steps = config.schedule.episodes
    own, *others = reversed(trainer.updates)
    step = _step_seconds(trainer, [own.name], trial_seconds)
    every = [update.name for update in trainer.updates]
    both = _step_seconds(trainer, every, trial_seconds) if others else step
    validating = _validation_seconds(trainer, validation)
    return Estimate(
        steps=steps,
        auxiliary_updates=sum(update.is_due(t) for update in others for t in range(steps)),
        validations=sum(validates_after(t + 1, config) for t in range(steps)),
        step_seconds=step,
        auxiliary_seconds=max(0.0, both - step),
        validation_seconds=validating,
        peak_bytes=peak_bytes(trainer.device),
        device=_describe(trainer.device),
        patience=config.validation.patience,
    )


def _step_seconds(trainer: Trainer, updates: Collection[str], trial_seconds: float) -> float:
    """Median time of a step that makes these updates, ignoring the first step."""
    times: list[float] = []
    for t in itertools.count():
        start = time.perf_counter()
        numbers = trainer.step(t, updates).numbers
        numbers["loss"].item()  # waits for the device
        times.append(time.perf_counter() - start)
        if len(times) > 2 and (sum(times) > trial_seconds or len(times) > _STEPS):
            break
    return statistics.median(times[1:])


def _validation_seconds(trainer: Trainer, sampler: EpisodeSampler) -> float:
    tasks, model = trainer.config.validation.tasks, trainer.model
    few = min(tasks, _TASKS)
    evaluate_tasks(model, sampler, 1, controls=False)  # warms up
    seconds = evaluate_tasks(model, sampler, few, controls=False).seconds
    return seconds * embedded_images(model, sampler, tasks) / embedded_images(model, sampler, few)


def embedded_images(model: Method, sampler: EpisodeSampler, tasks: int) -> int:
    """Images that pass through the network in an evaluation."""
    episode = sampler.batch(0, tasks)
    rows = np.concatenate([episode.support, episode.query], axis=1)
    return model.images_embedded(len(np.unique(rows)), rows.size)


def _describe(device: torch.device) -> str:
    if device.type != "cpu":
        return str(device)
    return f"cpu, {torch.get_num_threads()} threads, {native.core()} core"
