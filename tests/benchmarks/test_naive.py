"""The benchmarks' naive reference computes the same as our model and trainer."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from gradients import grad
from tadam import native
from tadam.benchmarks.naive import NaiveTadam, NaiveTrainer, evaluate, load_images, sampled_logits
from tadam.config import Config
from tadam.data.episodes import EpisodeSampler
from tadam.data.store import ImageStore
from tadam.evaluation.tasks import evaluate_tasks
from tadam.methods.base import InputSpec
from tadam.methods.tadam import Tadam
from tadam.training.trainer import Trainer

CLASSES = 6


@pytest.fixture(autouse=True)
def plain_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns the native core off: it rounds differently and has its own tests."""
    monkeypatch.setattr(native, "available", lambda: False)


@pytest.fixture
def store() -> ImageStore:
    images = np.random.default_rng(0).integers(0, 256, (CLASSES * 12, 16, 16, 3), dtype=np.uint8)
    return ImageStore.from_counts(images, [12] * CLASSES, [f"class {k}" for k in range(CLASSES)])


def config_with(tasks: int, conditioned: bool = True) -> Config:
    return Config().updated(
        {
            "conditioning": {"enabled": conditioned},
            "episode": {"shot": 2, "queries": 10, "tasks": tasks},
            "backbone": {"width": 4, "initialisation": "he"},
            "metric": {"alpha": 2.0},
            "auxiliary": {"batch_size": 16, "probability": 1.0, "decay": 1.0},
        }
    )


def model_with(config: Config, store: ImageStore) -> Tadam:
    """A model with conditioning on and running statistics away from their initial values."""
    model = Tadam.build(config, InputSpec(3, 16, CLASSES))
    model.initialise(config, *store.channel_statistics())
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if name.endswith((".gamma0", ".beta0")):
                tensor.uniform_(0.2, 0.5, generator=generator)
            if ".norm." in name and tensor.is_floating_point():
                tensor.uniform_(0.5, 1.5, generator=generator)
    return model


def our_batch(trainer: Trainer, t: int) -> tuple[torch.Tensor, ...]:
    """Support, support labels, queries and query labels of step t, with a leading T axis."""
    tasks = trainer.config.episode.tasks
    episode = trainer.sampler.batch(t * tasks, tasks)
    support, query = (
        torch.from_numpy(trainer.store.images[rows]).permute(0, 1, 4, 2, 3)
        for rows in (episode.support, episode.query)
    )
    labels, targets = map(torch.from_numpy, (episode.support_labels, episode.query_labels))
    return support, labels, query, targets


def close(actual: torch.Tensor, expected: torch.Tensor, name: str = "") -> None:
    """Asserts equality to 1e-4, relative to the largest entry if that exceeds 1."""
    scale = expected.detach().abs().max().clamp_min(1.0)
    torch.testing.assert_close(
        actual / scale, expected / scale, rtol=0, atol=1e-4, msg=lambda m: f"{name}: {m}"
    )


@pytest.mark.parametrize(("tasks", "training"), [(1, True), (1, False), (2, False)])
def test_logits_and_auxiliary_logits_agree(store: ImageStore, tasks: int, training: bool) -> None:
    config = config_with(tasks)
    model = model_with(config, store)
    naive = NaiveTadam(model)
    trainer = Trainer(config, model, store, torch.device("cpu"))
    model.train(training)
    naive.training = training
    support, labels, query, _ = our_batch(trainer, 0)
    expected = [
        naive.task_logits(support[i].float(), labels[i], query[i].float(), config.episode.way)
        for i in range(tasks)
    ]
    close(model(support, labels, query, config.episode.way), torch.stack(expected))
    images = load_images(store, range(0, len(store.images), 3))
    close(model.auxiliary_logits(images), naive.auxiliary_logits(images))


def test_conditioning_matters_in_the_comparison(store: ImageStore) -> None:
    config = config_with(1)
    model = model_with(config, store)
    support, labels, query, _ = our_batch(Trainer(config, model, store, torch.device("cpu")), 0)
    on = model(support, labels, query, config.episode.way)
    off = model(support, labels, query, config.episode.way, condition=False)
    assert (on - off).abs().max() > 0.01


@pytest.mark.parametrize(("tasks", "training"), [(1, True), (2, False)])
def test_loss_and_gradients_agree(store: ImageStore, tasks: int, training: bool) -> None:
    config = config_with(tasks)
    model = model_with(config, store)
    naive = NaiveTrainer(config, model, store)
    trainer = Trainer(config, model, store, torch.device("cpu"))
    model.train(training)
    naive.model.training = training
    support, labels, query, targets = our_batch(trainer, 3)
    logits = model(support, labels, query, config.episode.way)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    expected = naive.few_shot_loss(3)
    expected.backward()
    close(loss, expected)
    for name, parameter in model.named_parameters():
        if name.startswith("auxiliary_head."):
            assert parameter.grad is None
            assert naive.model.parameters[name].grad is None
        else:
            close(grad(parameter), grad(naive.model.parameters[name]), name)


def test_two_whole_steps_give_the_same_losses_weights_and_statistics(store: ImageStore) -> None:
    config = config_with(1)
    model = model_with(config, store)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    naive = NaiveTrainer(config, model, store)
    trainer = Trainer(config, model, store, torch.device("cpu"))
    for t in range(2):
        ours, (loss, auxiliary_loss) = trainer.step(t), naive.step(t)
        close(ours.numbers["loss"], loss)
        close(ours.numbers["auxiliary_loss"], auxiliary_loss)
    for name, parameter in model.named_parameters():
        assert not torch.equal(parameter, before[name]), f"{name} was not trained"
        close(parameter, naive.model.parameters[name], name)
    for name, buffer in model.named_buffers():
        if not name.endswith("num_batches_tracked"):
            close(buffer, naive.model.buffers[name], name)


@pytest.mark.parametrize("conditioned", [True, False])
def test_evaluation_gives_the_same_logits_and_accuracies(
    store: ImageStore, conditioned: bool
) -> None:
    config = config_with(1, conditioned)
    model = model_with(config, store).eval()
    naive = NaiveTadam(model)
    sampler = EpisodeSampler(store, way=3, shot=2, queries=20, seed=5)
    accuracies = evaluate(naive, sampler, range(8))
    ours = evaluate_tasks(model, sampler, 8, controls=False)
    assert np.mean(accuracies) == pytest.approx(ours.accuracy)
    assert ours.ci95 == pytest.approx(1.96 * np.std(accuracies, ddof=1) / 8**0.5)
    assert len(set(accuracies)) > 2  # accuracies differ between tasks, so the comparison can fail

    episode = sampler.task(3)
    support, query = (
        torch.from_numpy(store.images[rows]).permute(0, 1, 4, 2, 3)
        for rows in (episode.support, episode.query)
    )
    with torch.no_grad():
        logits = model(support, torch.from_numpy(episode.support_labels), query, way=3)
        expected, labels = sampled_logits(naive, sampler, 3)
    close(logits[0], expected)
    np.testing.assert_array_equal(labels, episode.query_labels[0])


def test_images_are_loaded_channels_first(store: ImageStore) -> None:
    images = load_images(store, [5, 2])
    assert images.shape == (2, 3, 16, 16)
    assert images.is_contiguous()
    np.testing.assert_array_equal(images[0, 1].numpy(), store.images[5, :, :, 1])
