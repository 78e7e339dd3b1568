"""What TEN sees of a task: moments by NumPy, deviations from the usual one, no hidden state."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tadam.config import ConditioningConfig, Config
from tadam.methods.base import InputSpec
from tadam.methods.tadam import Tadam
from tadam.methods.task_description import TaskDescription, spread_within
from tadam.metric import prototypes
from tadam.nn.ten import TaskEmbeddingNetwork
from tadam.training.run import train
from tiny import SETTINGS, write_image_folder

LABELS = np.array([[0, 0, 1, 2, 2, 2], [2, 0, 1, 1, 0, 1]])  # shots 2, 1, 3 and 2, 3, 1
CONDITIONED = (
    "conditioning.representation=moments",
    "conditioning.standardise=true",
    "conditioning.base=true",
    "conditioning.dropout=0.3",
    "conditioning.noise=0.1",
)


def support(seed: int = 0) -> torch.Tensor:
    """Embeddings of two tasks of six images, (2, 6, 4)."""
    return torch.from_numpy(np.random.default_rng(seed).normal(1, 2, (2, 6, 4)).astype(np.float32))


def moments_by_numpy(z: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Mean and spread of the prototypes, then the mean spread of classes with several images."""
    groups = [z[labels == k] for k in range(3)]
    c = np.stack([group.mean(axis=0) for group in groups])
    within = [group.std(axis=0, ddof=1) for group in groups if len(group) > 1]
    return np.concatenate([c.mean(axis=0), c.std(axis=0), np.mean(within, axis=0)])


def described(description: TaskDescription, z: torch.Tensor, labels: np.ndarray) -> np.ndarray:
    numbers = torch.from_numpy(labels)
    return np.asarray(description(z, numbers, prototypes(z, numbers, 3)).numpy())


def test_moments_are_those_that_numpy_computes() -> None:
    z = support()
    expected = [moments_by_numpy(z[t].double().numpy(), LABELS[t]) for t in range(2)]
    found = described(TaskDescription("moments", 4), z, LABELS)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_single_images_have_no_spread_and_a_finite_gradient() -> None:
    z, labels = support()[:, :3].requires_grad_(), torch.tensor([[0, 1, 2], [2, 0, 1]])
    spread, known = spread_within(z, labels, prototypes(z, labels, 3))
    assert not spread.any()
    assert not known.any()
    spread.sum().backward()
    assert z.grad is not None
    assert torch.isfinite(z.grad).all()


def test_a_spread_that_is_not_known_deviates_in_nothing() -> None:
    config = ConditioningConfig(standardise=True)
    description = TaskDescription("moments", 4, config).eval()
    description.running_mean.normal_(generator=torch.Generator().manual_seed(0))
    found = described(description, support()[:, :3], np.array([[0, 1, 2], [2, 0, 1]]))
    assert found[:, :8].all()
    assert not found[:, 8:].any()


def test_standardising_shows_deviations_from_a_moving_mean_of_training_tasks() -> None:
    description = TaskDescription("mean", 4, ConditioningConfig(standardise=True))
    mean, variance = np.zeros(4), np.ones(4)
    for seed in range(40):
        z = support(seed)
        raw = np.stack(
            [[z[t].numpy()[LABELS[t] == k].mean(axis=0) for k in range(3)] for t in range(2)]
        ).mean(axis=1)
        expected = (raw - mean) / np.sqrt(variance + 1e-4)
        np.testing.assert_allclose(
            described(description, z, LABELS), expected, rtol=1e-3, atol=1e-4
        )
        away = raw - mean
        mean = mean + 0.02 * away.mean(axis=0)
        variance = 0.98 * (variance + 0.02 * np.square(away).mean(axis=0))
    np.testing.assert_allclose(description.running_mean, mean, rtol=1e-4)
    np.testing.assert_allclose(description.running_var, variance, rtol=1e-4)
    described(description.eval(), support(), LABELS)
    np.testing.assert_allclose(description.running_mean, mean, rtol=1e-4)  # evaluation only reads


def test_statistics_of_a_batch_are_the_mean_over_its_tasks_one_by_one() -> None:
    config, z = ConditioningConfig(standardise=True), support()
    whole, *parts = (TaskDescription("moments", 4, config) for _ in range(3))
    described(whole, z, LABELS)
    for t, part in enumerate(parts):  # as processes with a task each do
        described(part, z[t : t + 1], LABELS[t : t + 1])
    for name in ("running_mean", "running_var"):
        mean = torch.stack([getattr(part, name) for part in parts]).mean(dim=0)
        torch.testing.assert_close(getattr(whole, name), mean)


def test_dropout_and_noise_act_in_training_alone_and_follow_from_the_pass() -> None:
    config = ConditioningConfig(dropout=0.5, noise=0.1)
    one, same, other = (TaskDescription("mean_std", 4, config, seed) for seed in (3, 3, 4))
    z = support()
    first, second = described(one, z, LABELS), described(one, z, LABELS)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, described(same, z, LABELS))
    assert not np.array_equal(first, described(other, z, LABELS))
    plain = described(TaskDescription("mean_std", 4), z, LABELS)
    np.testing.assert_array_equal(described(one.eval(), z, LABELS), plain)
    same.passes.zero_()  # as a checkpoint would
    np.testing.assert_array_equal(first, described(same, z, LABELS))


def test_dropout_keeps_the_mean_of_the_input() -> None:
    config = ConditioningConfig(dropout=0.25)
    description = TaskDescription("mean", 4, config)
    z = torch.ones(500, 3, 4)
    found = described(description, z, np.tile([0, 1, 2], (500, 1)))
    np.testing.assert_allclose(np.unique(found), [0, 1 / 0.75], rtol=1e-6)
    assert found.mean() == pytest.approx(1, abs=0.05)


def test_a_base_is_what_all_tasks_share_and_ten_adds_to_it() -> None:
    ten: Any = TaskEmbeddingNetwork(4, [3], [0], base=True)
    layer = ten.conditioners["0"]
    assert [tuple(v.tolist()) for v in ten(torch.zeros(1, 4))[0][0]] == [(1.0, 1.0, 1.0)]
    layer.base_gamma.data = torch.tensor([0.5, 1.0, 2.0])
    layer.base_beta.data = torch.tensor([1.0, 2.0, 3.0])
    layer.gamma0.data.fill_(0.3)
    task = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
    gamma, beta = ten(task)[0]
    expected = layer.base_gamma + 0.3 * layer.gamma_net(task)
    torch.testing.assert_close(gamma, expected)
    torch.testing.assert_close(beta, layer.base_beta.expand(2, -1))


def test_without_multipliers_ten_acts_at_once_and_has_none_to_show() -> None:
    ten: Any = TaskEmbeddingNetwork(4, [3], [0], multipliers=False)
    task = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
    layer = ten.conditioners["0"]
    torch.testing.assert_close(ten(task)[0][0], 1 + layer.gamma_net(task))
    torch.testing.assert_close(ten(task)[0][1], layer.beta_net(task))
    assert ten.multipliers() == {}


def test_vectors_in_a_row_come_back_as_they_were() -> None:
    ten = TaskEmbeddingNetwork(4, [2, 3, 5], [0, 2], multipliers=False)
    film = ten(torch.randn(6, 4, generator=torch.Generator().manual_seed(0)))
    rows = ten.as_rows(film)
    assert rows.shape == (6, 2 * 2 + 2 * 5)
    for pair, again in zip(film, ten.from_rows(rows), strict=True):
        assert (pair is None) == (again is None)
        for vector, back in zip(pair or (), again or (), strict=True):
            assert torch.equal(vector, back)


def test_a_recipe_without_these_settings_has_the_weights_that_it_always_had() -> None:
    spec = InputSpec(3, 16, 0)
    plain = Tadam.build(Config().with_settings(["backbone.width=2"]), spec)
    assert not [name for name in plain.state_dict() if name.startswith("description.")]
    changed = Config().with_settings(["backbone.width=2", *CONDITIONED])
    found = Tadam.build(changed, spec).state_dict()
    added = {name for name in found if name.startswith("description.")}
    assert added == {"description.running_mean", "description.running_var", "description.passes"}
    assert len([name for name in found if ".base_" in name]) == 2 * 12


def test_a_run_with_all_of_it_resumes_bit_for_bit(tmp_path: Path) -> None:
    images = write_image_folder(tmp_path / "images")
    settings = [*SETTINGS, *CONDITIONED, "optimiser.multiplier_decay=0"]
    name = f"folder:{images}"
    whole = train("images", tmp_path / "whole", dataset=name, settings=settings)
    stopped = [*settings, "schedule.episodes=6"]

    class Stop:
        """Interrupts after step 3, as Ctrl-C does."""

        def __getattr__(self, name: str) -> Any:
            return lambda *arguments: None

        def step(self, step: int, record: Any) -> None:
            if step == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train("images", tmp_path / "cut", dataset=name, settings=stopped, reporter=Stop())
    train("images", tmp_path / "cut", dataset=name, settings=stopped, resume=True)
    ours, theirs = ((f / "last.safetensors").read_bytes() for f in (whole.folder, tmp_path / "cut"))
    # The two files differ only in the seconds they name.
    assert ours[-10_000:] == theirs[-10_000:]
    assert len(ours) > 20_000
