"""With and without the native core: the same training curve and the same accuracy."""

import pytest
import torch

from tadam import native
from tadam.config import Config, DataConfig
from tadam.data.catalogue import load_splits
from tadam.data.episodes import EpisodeSampler
from tadam.evaluation.tasks import evaluate_tasks
from tadam.methods.base import InputSpec
from tadam.methods.tadam import Tadam
from tadam.training.trainer import Trainer

STEPS = 20

pytestmark = pytest.mark.skipif(
    not native.available(), reason="the native core was not built: no C++ compiler here"
)


def without_core(monkeypatch):
    monkeypatch.setattr(native, "available", lambda: False)


def train(splits):
    """A model and its losses, few-shot and auxiliary, step by step."""
    config = Config().updated(
        {
            "backbone": {"width": 16},
            "metric": {"alpha": 2.0},
            "auxiliary": {"probability": 1.0, "decay": 1.0},
            "episode": {"queries": 16},
            "optimiser": {"learning_rate": 0.02},  # small enough for rounding to stay small
        }
    )
    store = splits["train"]
    model = Tadam.build(config, InputSpec(3, store.image_size, len(store.class_names)))
    model.initialise(config, *store.channel_statistics(most=1000))
    trainer = Trainer(config, model, store, torch.device("cpu"))
    results = [trainer.step(t) for t in range(STEPS)]
    return model, torch.tensor([[r.loss, r.auxiliary_loss] for r in results])


def test_training_and_accuracy_do_not_depend_on_the_core(monkeypatch):
    splits = load_splits(DataConfig("shapes"))
    model, ours = train(splits)
    sampler = EpisodeSampler(splits["val"], way=5, shot=1, queries=10, seed=0)
    accurate = evaluate_tasks(model, sampler, tasks=500)
    with monkeypatch.context() as patch:
        without_core(patch)
        plain = evaluate_tasks(model, sampler, tasks=500)
        _, expected = train(splits)
    assert accurate.accuracy_unconditioned is not None
    assert abs(accurate.accuracy - plain.accuracy) <= 0.001
    assert abs(accurate.accuracy_unconditioned - plain.accuracy_unconditioned) <= 0.001

    # Training amplifies rounding about tenfold a step at first, with or without the core.
    difference = (ours - expected).abs()
    assert difference[0].max() < 1e-4
    assert difference[1].max() < 5e-3
    assert difference.mean() < 0.15
    assert expected[-5:].mean() < 0.9 * expected[:5].mean()  # it learns
    images = torch.from_numpy(splits["val"].images[:64]).permute(0, 3, 1, 2)
    with torch.no_grad():
        model.eval()
        embedded = model.embed(images)
        without_core(monkeypatch)
        reference = model.embed(images)
    assert (embedded - reference).norm() <= 1e-3 * reference.norm()
