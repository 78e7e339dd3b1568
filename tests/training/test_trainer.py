"""A training step: weight decay groups, order of the two updates, and determinism."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from as_tadam import as_tadam
from readings import Readings
from tadam.config import Config
from tadam.data.store import ImageStore
from tadam.methods.base import InputSpec, Update
from tadam.methods.tadam import Tadam
from tadam.training.trainer import Trainer

TINY = {
    "backbone": {"width": 1},
    "episode": {"way": 2, "shot": 1, "queries": 4, "tasks": 2},
    "auxiliary": {"batch_size": 8},
    "schedule": {"episodes": 100},
}


def make_store() -> ImageStore:
    images = np.random.default_rng(0).integers(0, 256, (24, 16, 16, 3), np.uint8)
    return ImageStore.from_counts(images, [8, 8, 8], ["a", "b", "c"])


def make_trainer(*settings: str, device: str = "cpu") -> Trainer:
    config = Config().updated(TINY).with_settings(list(settings))
    store = make_store()
    model = Tadam.build(config, InputSpec(3, 16, 3 if config.auxiliary.enabled else 0))
    model.initialise(config, *store.channel_statistics())
    return Trainer(config, model, store, torch.device(device))


def decays(optimiser: torch.optim.Optimizer) -> dict[int, float]:
    """Weight decay by the id of the parameter."""
    groups = optimiser.param_groups
    return {id(p): group["weight_decay"] for group in groups for p in group["params"]}


def expected_decays(model: nn.Module) -> dict[int, float]:
    """The same, from the kind of module that a parameter belongs to."""
    result = {id(p): 0.0 for p in model.parameters()}
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            result[id(module.weight)] = 5e-4
        if hasattr(module, "gamma0"):
            result[id(module.gamma0)] = result[id(module.beta0)] = 0.01
    head = as_tadam(model).auxiliary_head
    if head is not None:
        result[id(head.weight)] = 0.0
    return result


def test_weight_decay_spares_batch_norm_biases_head_and_alpha() -> None:
    trainer = make_trainer("metric.learn_alpha=true")
    model = trainer.model
    found = {**decays(trainer.optimisers["few_shot"]), **decays(trainer.optimisers["auxiliary"])}
    expected = expected_decays(model)
    assert {n: found[id(p)] for n, p in model.named_parameters()} == {
        n: expected[id(p)] for n, p in model.named_parameters()
    }
    # 16 convolutions and 12 x 2 x 3 TEN matrices; 12 x 2 multipliers
    assert sorted(found.values()).count(5e-4) == 16 + 72
    assert sorted(found.values()).count(0.01) == 24
    assert found[id(as_tadam(model).metric.log_alpha)] == 0.0


def test_few_shot_trains_all_but_the_head_and_auxiliary_only_backbone_and_head() -> None:
    trainer = make_trainer("metric.learn_alpha=true")
    names = {id(p): n.partition(".")[0] for n, p in trainer.model.named_parameters()}
    few_shot = {names[i] for i in decays(trainer.optimisers["few_shot"])}
    auxiliary = {names[i] for i in decays(trainer.optimisers["auxiliary"])}
    assert few_shot == {"backbone", "ten", "metric"}
    assert auxiliary == {"backbone", "auxiliary_head"}
    assert len(decays(trainer.optimisers["few_shot"])) == len(names) - 2


def record_updates(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """Which optimiser steps, and at what rate, while the real step still happens."""
    events: list[tuple[str, float]] = []
    for name in trainer.optimisers:
        optimiser = trainer.optimisers[name]

        def stepped(
            name: str = name,
            optimiser: torch.optim.Optimizer = optimiser,
            step: Callable[..., Any] = optimiser.step,
        ) -> None:
            rates = {group["lr"] for group in optimiser.param_groups}
            events.append((name, *rates))
            step()

        monkeypatch.setattr(optimiser, "step", stepped)
    return events


def test_auxiliary_update_comes_before_the_few_shot_update(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer("auxiliary.probability=1.0", "auxiliary.decay=1.0")
    events = record_updates(trainer, monkeypatch)
    for t in (0, 50, 75):
        trainer.step(t)
    order = ["auxiliary", "few_shot"]
    assert [name for name, _ in events] == order * 3
    # one schedule for both: 0.1, then 0.01 from T/2 and 0.001 from 3T/4
    assert [rate for _, rate in events] == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_few_shot_update_happens_in_every_step_whatever_the_coin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trainer = make_trainer("auxiliary.probability=0.5", "auxiliary.decay=1.0")
    events = record_updates(trainer, monkeypatch)
    expected = []
    for t in range(12):
        result = trainer.step(t)
        ran = "auxiliary_loss" in result.numbers
        expected += ["auxiliary", "few_shot"] if ran else ["few_shot"]
        assert ("auxiliary_accuracy" in result.numbers) == ran
        # 2 tasks of 2 support and 4 query images, and the auxiliary batch
        assert result.images == 2 * (2 + 4) + (8 if ran else 0)
    assert [name for name, _ in events] == expected
    assert 12 < len(expected) < 24  # both cases were seen


def test_auxiliary_steps_follow_the_decaying_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 8_000
    trainer = make_trainer(f"schedule.episodes={steps}")
    ran: list[int] = []
    zero = torch.zeros(())

    def auxiliary(update: Update, t: int, rate: float) -> tuple[Tensor, Tensor, int]:
        ran.append(t)
        return zero, zero, 0

    monkeypatch.setattr(trainer, "_image_update", auxiliary)
    monkeypatch.setattr(trainer, "_task_update", lambda update, t, rate: (zero, zero, 0))
    for t in range(steps):
        trainer.step(t)
    counts = np.bincount(np.array(ran) // 400, minlength=20)
    p = 0.9 ** np.arange(1, 21)
    deviation = np.sqrt(400 * p * (1 - p))
    assert (np.abs(counts - 400 * p) < 4 * deviation).all()


def test_no_auxiliary_update_without_co_training(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer("auxiliary.enabled=false")
    events = record_updates(trainer, monkeypatch)
    for t in range(3):
        assert trainer.step(t).numbers.keys() == {"loss", "accuracy"}
    assert [name for name, _ in events] == ["few_shot"] * 3


def state(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def assert_equal_states(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    different = [name for name in one if not torch.equal(one[name], other[name])]
    assert different == []


AUGMENTED = ("augment.flip=true", "augment.crop_padding=2", "augment.brightness=0.3")


def test_two_trainers_end_with_the_same_bits() -> None:
    finals = []
    for seed in (1, 2):
        torch.manual_seed(seed)  # the global RNG must not matter
        np.random.seed(seed)  # noqa: NPY002
        trainer = make_trainer("metric.learn_alpha=true", *AUGMENTED)
        before = state(trainer)
        losses = [trainer.step(t).numbers["loss"].item() for t in range(5)]
        finals.append((losses, state(trainer)))
    assert finals[0][0] == finals[1][0]
    assert_equal_states(finals[0][1], finals[1][1])
    moved = [n for n in before if not torch.equal(before[n], finals[0][1][n])]
    assert "ten.conditioners.11.gamma0" in moved
    assert "metric.log_alpha" in moved
    assert "auxiliary_head.weight" in moved
    assert "backbone.pixel_mean" not in moved


def test_a_step_depends_on_the_state_and_its_number_alone() -> None:
    straight = make_trainer(*AUGMENTED)
    for t in range(4):
        straight.step(t)
    first, second = make_trainer(*AUGMENTED), make_trainer(*AUGMENTED)
    first.step(0)
    first.step(1)
    second.model.load_state_dict(first.model.state_dict())
    second.optimisers["few_shot"].load_state_dict(first.optimisers["few_shot"].state_dict())
    second.optimisers["auxiliary"].load_state_dict(first.optimisers["auxiliary"].state_dict())
    second.step(2)
    second.step(3)
    assert_equal_states(state(straight), state(second))


def test_another_seed_trains_other_weights() -> None:
    one, other = make_trainer(), make_trainer("run.seed=1")
    other.model.load_state_dict(one.model.state_dict())
    one.step(0)
    other.step(0)
    name = "backbone.blocks.0.units.0.conv.weight"
    assert not torch.equal(state(one)[name], state(other)[name])


def test_training_leaves_the_global_rng_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    make_trainer(*AUGMENTED).step(0)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("settings", "passes"),
    [
        (("auxiliary.enabled=false",), 3),
        (("auxiliary.probability=1.0",), 4),
        (("auxiliary.enabled=false", "conditioning.enabled=false"), 2),
    ],
)
def test_every_pass_of_a_step_updates_batch_norm(settings: tuple[Any, ...], passes: int) -> None:
    trainer = make_trainer(*settings)
    trainer.step(0)
    tracked = [v for k, v in state(trainer).items() if k.endswith("num_batches_tracked")]
    assert [v.item() for v in tracked] == [passes] * 16


def test_loss_and_accuracy_are_those_of_the_episode_before_the_update() -> None:
    trainer = make_trainer("auxiliary.enabled=false", "optimiser.label_smoothing=0.1")
    twin = make_trainer("auxiliary.enabled=false")
    result = trainer.step(3)
    episode = twin.sampler.batch(6, 2)  # two tasks a step: step 3 has tasks 6 and 7

    def images(rows: npt.NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(twin.store.images[rows]).permute(0, 1, 4, 2, 3)

    with torch.no_grad():
        labels = torch.from_numpy(episode.support_labels)
        logits = twin.model(images(episode.support), labels, images(episode.query), 2).numpy()
    exponent = np.exp(logits.astype(np.float64))
    p = exponent / exponent.sum(axis=2, keepdims=True)
    target = 0.9 * np.eye(2)[episode.query_labels] + 0.1 / 2
    assert result.numbers["loss"].item() == pytest.approx(
        -(target * np.log(p)).sum(axis=2).mean(), rel=1e-5
    )
    right = logits.argmax(axis=2) == episode.query_labels
    assert result.numbers["accuracy"].item() == pytest.approx(right.mean())


def test_images_kept_on_the_device_train_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = make_trainer(*AUGMENTED)
    monkeypatch.setattr("tadam.training.trainer.images_fit", lambda size, device: True)
    resident = make_trainer(*AUGMENTED)
    resident.store.images.fill(0)  # no longer read
    for t in range(2):
        usual.step(t)
        resident.step(t)
    assert_equal_states(state(usual), state(resident))


def test_readings_are_noticed() -> None:
    with Readings() as readings:
        torch.ones(2).sum().item()
        bool(torch.ones(()) > 0)
    assert readings.count == 2


STEADY = (*AUGMENTED, "augment.saturation=0.3", "metric.learn_alpha=true")
ALWAYS = ("auxiliary.probability=1.0", "auxiliary.decay=1.0")


@pytest.mark.parametrize("clip", ["parameter", "global", "none"])
@pytest.mark.parametrize("statistics", ["batch", "task"])
def test_a_step_reads_nothing_from_the_device(clip: str, statistics: str) -> None:
    settings = (f"optimiser.clip={clip}", f"backbone.statistics={statistics}")
    trainer = make_trainer(*STEADY, *ALWAYS, *settings)
    with Readings() as readings:
        for t in range(3):
            trainer.step(t)
    assert readings.count == 0


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_a_step_needs_no_number_from_a_device_that_has_none(optimiser: str) -> None:
    # Tensors on "meta" have shapes but no values: whatever looked at one would raise.
    trainer = make_trainer(*STEADY, *ALWAYS, f"optimiser.name={optimiser}", device="meta")
    for t in range(2):
        result = trainer.step(t)
    numbers = result.numbers.values()
    assert [(n.device.type, n.shape) for n in numbers] == [("meta", ())] * 4
