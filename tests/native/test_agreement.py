"""With and without the native core: the same training steps, embeddings and accuracy."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from tadam import native
from tadam.config import Config, DataConfig
from tadam.data.catalogue import load_splits
from tadam.data.episodes import EpisodeSampler
from tadam.data.store import ImageStore
from tadam.evaluation.tasks import evaluate_tasks
from tadam.methods.base import InputSpec
from tadam.methods.tadam import Tadam
from tadam.nn.fast import plain_autograd
from tadam.training.trainer import Trainer

STEPS = 12

pytestmark = pytest.mark.skipif(
    not native.available(), reason="the native core was not built: no C++ compiler here"
)


@pytest.fixture(scope="module")
def splits() -> Mapping[str, ImageStore]:
    return load_splits(DataConfig("shapes"))


def trainer_of(splits: Mapping[str, ImageStore]) -> Trainer:
    config = Config().updated(
        {
            "backbone": {"width": 16},
            "metric": {"alpha": 2.0},
            "auxiliary": {"probability": 1.0, "decay": 1.0},
            "episode": {"queries": 16},
            "optimiser": {"learning_rate": 0.02},
        }
    )
    store = splits["train"]
    model = Tadam.build(config, InputSpec(3, store.image_size, len(store.class_names)))
    model.initialise(config, *store.channel_statistics(most=1000))
    return Trainer(config, model, store, torch.device("cpu"))


def weights_of(trainer: Trainer) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in trainer.model.named_parameters()}


def test_every_step_and_the_accuracy_after_them_do_not_depend_on_the_core(
    splits: Mapping[str, ImageStore],
) -> None:
    ours = trainer_of(splits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "available", lambda: False)
        plain = trainer_of(splits)
    losses = []
    for t in range(STEPS):
        # Training amplifies rounding, so both start each step from the same weights.
        plain.model.load_state_dict(ours.model.state_dict())
        before = weights_of(ours)
        found, expected = ours.step(t).numbers, plain.step(t).numbers
        after, expected_after = weights_of(ours), weights_of(plain)
        losses.append(expected["loss"] + expected["auxiliary_loss"])
        assert abs(found["loss"] - expected["loss"]) < 5e-4
        assert abs(found["auxiliary_loss"] - expected["auxiliary_loss"]) < 1e-5
        for name, weight in before.items():
            moved, expected_move = after[name] - weight, expected_after[name] - weight
            assert (moved - expected_move).norm() < 0.02 * expected_move.norm() + 2e-5, name
    assert sum(losses[-5:]) < 0.97 * sum(losses[:5])  # it learns

    model: Any = ours.model.eval()
    sampler = EpisodeSampler(splits["val"], way=5, shot=1, queries=10, seed=0)
    images = torch.from_numpy(splits["val"].images[:64]).permute(0, 3, 1, 2)
    results = []
    with torch.no_grad():
        results.append((evaluate_tasks(model, sampler, tasks=500), model.embed(images)))
        with plain_autograd():
            results.append((evaluate_tasks(model, sampler, tasks=500), model.embed(images)))
    (accurate, embedded), (reference, exact) = results
    assert accurate.accuracy_unconditioned is not None
    assert reference.accuracy_unconditioned is not None
    assert abs(accurate.accuracy - reference.accuracy) <= 0.001
    assert abs(accurate.accuracy_unconditioned - reference.accuracy_unconditioned) <= 0.001
    assert (embedded - exact).norm() <= 1e-5 * exact.norm()
