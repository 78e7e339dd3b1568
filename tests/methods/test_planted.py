"""A planted case: two families of tasks, each with a feature that matters and one that misleads.

In family "a" classes differ in the first feature, and the second is noise; in family "b" it is the
other way round. The noise is as large as makes the mean of the prototypes vary alike in both, so
that the mean cannot tell them apart; what varies between classes and within them can.
"""

import numpy as np
import pytest
import torch
from torch import Tensor

from tadam.config import Config
from tadam.data.episodes import EpisodeSampler
from tadam.data.store import ImageStore
from tadam.evaluation.tasks import Evaluation, evaluate_tasks
from tadam.methods.tadam import Tadam
from tadam.methods.task_description import TaskDescription
from tadam.metric import ScaledMetric
from tadam.nn.backbone import Backbone
from tadam.nn.film import Film
from tadam.nn.ten import TaskEmbeddingNetwork, initialise_ten
from tadam.training.trainer import Trainer

WAY, SHOT = 4, 5
CONFIG = Config().with_settings(
    [
        f"episode.way={WAY}",
        f"episode.shot={SHOT}",
        "episode.tasks=8",
        "episode.queries=16",
        "episode.within_family=1",
        "conditioning.standardise=true",
        "conditioning.base=true",
        "auxiliary.enabled=false",
        "optimiser.name=adamw",
        "optimiser.learning_rate=0.02",
        "optimiser.weight_decay=0.0",
        "optimiser.multiplier_decay=0.0",
        "schedule.episodes=250",
        "schedule.kind=cosine",
    ]
)


class TwoFeatures(Backbone):
    """The image's colour, scaled by FiLM; there is nothing to train but TEN."""

    feature_size = 3
    conditioned_widths = (3,)

    def __init__(self) -> None:
        super().__init__(3, 2, mean=[128.0] * 3, std=[30.0] * 3)

    def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
        """(T*N, 3, 2, 2) -> (T*N, 3)."""
        z = x.mean(dim=(2, 3))
        if film is None or film[0] is None:
            return z
        gamma, beta = (v.repeat_interleave(len(z) // len(v), dim=0) for v in film[0])
        return gamma * z + beta


def planted(seed: int, classes: int = 24, images: int = 40) -> ImageStore:
    """Classes of both families; the third colour is the same in all images."""
    dice = np.random.default_rng(seed)
    # The same centres in both families, their mean zero and their standard deviation 20.
    centres = np.tile(dice.permutation(np.linspace(-33.2, 33.2, classes)), 2)
    colours = np.full((2 * classes, images, 3), 128.0)
    for k, centre in enumerate(centres):
        matters = k // classes
        colours[k, :, matters] += centre + dice.normal(0, 4, images)
        # In the mean of WAY prototypes this noise is as large as the centres' own variation.
        colours[k, :, 1 - matters] += dice.normal(0, 20 * SHOT**0.5, images)
    pixels = colours.clip(0, 255).astype(np.uint8).reshape(-1, 1, 1, 3)
    names = [f"{'ab'[k // classes]}{k}" for k in range(2 * classes)]
    store = ImageStore.from_counts(np.tile(pixels, (1, 2, 2, 1)), [images] * (2 * classes), names)
    return store.in_families(lambda name: name[0])


class Shuffled(TaskDescription):
    """Shows TEN the next task of the batch instead of the task itself."""

    def forward(self, z: Tensor, labels: Tensor, c: Tensor) -> Tensor:
        return super().forward(z, labels, c).roll(1, dims=0)


def trained(kind: str, description: type[TaskDescription] = TaskDescription) -> Evaluation:
    """How a model with such a representation does on new classes, after training."""
    backbone = TwoFeatures()
    describe = description(kind, backbone.feature_size, CONFIG.conditioning)
    ten = TaskEmbeddingNetwork(describe.size, backbone.conditioned_widths, [0], base=True)
    initialise_ten(ten, torch.Generator().manual_seed(0))
    model = Tadam(backbone, ScaledMetric("euclidean", 1.0, learn_alpha=True), ten, describe, 0)
    trainer = Trainer(CONFIG, model, planted(0), torch.device("cpu"))
    for t in range(CONFIG.schedule.episodes):
        trainer.step(t)
    sampler = EpisodeSampler(planted(1), WAY, SHOT, 40, seed=0, within_family=1)
    return evaluate_tasks(model, sampler, 150, training=trainer.sampler)


def gain(result: Evaluation, control: str) -> tuple[float, float]:
    """Points by which a task's own vectors beat a control, and their interval."""
    found = result.controls[control]
    assert found["difference"] is not None
    assert found["difference_ci95"] is not None
    return 100 * found["difference"], 100 * found["difference_ci95"]


def test_moments_beat_another_tasks_vectors_and_no_conditioning() -> None:
    result = trained("moments")
    for control in ("other", "mean", "unconditioned"):
        points, half = gain(result, control)
        assert points > 15 + half, control
    assert "depends on the task: own minus other is +" in result.notes[0]


@pytest.mark.parametrize(
    ("kind", "description"), [("mean", TaskDescription), ("moments", Shuffled)]
)
def test_neither_the_mean_nor_moments_of_the_wrong_task_can_do_that(
    kind: str, description: type[TaskDescription]
) -> None:
    result = trained(kind, description)
    points, half = gain(result, "other")
    assert points <= half
    assert gain(result, "unconditioned")[0] < 6
