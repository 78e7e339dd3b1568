"""Discriminative k-shot learning: a prior from the training classes, weights for every task."""

from typing import Any

import numpy as np
import pytest
import torch

from tadam.config import Config
from tadam.data.episodes import EpisodeSampler
from tadam.errors import UserError
from tadam.evaluation.tasks import evaluate_tasks
from tadam.methods.base import InputSpec, build_model
from tadam.training.trainer import Trainer

SETTINGS = ["method.name=kshot", "method.batch_size=6", "backbone.width=2", "episode.queries=4"]


def built(*settings: str) -> Any:
    config = Config().with_settings([*SETTINGS, *settings])
    model: Any = build_model(config, InputSpec(3, 16, 7))
    model.initialise(config, [100.0] * 3, [50.0] * 3)
    return model.eval()


def images(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (*shape, 3, 16, 16), generator=generator)


def test_the_prior_is_the_gaussian_of_the_training_classes_weights() -> None:
    model, wide = built(), built("method.prior_scale=3")
    weight = model.class_head.weight.detach().numpy().astype(np.float64)
    mean, variance = model.prior()
    np.testing.assert_allclose(mean, weight.mean(axis=0), rtol=1e-5, atol=1e-7)
    assert variance == pytest.approx(weight.var(axis=0).mean())
    assert wide.prior()[1] == pytest.approx(3 * variance)
    assert model.logged_at_validation() == {"prior_deviation": variance**0.5}


@pytest.mark.parametrize("backbone", ["conv4", "resnet12"])
def test_it_answers_by_the_weights_that_are_most_probable(backbone: str) -> None:
    model = built(f"backbone.name={backbone}", "method.prior_scale=20")
    support, query = images(2, 6), images(2, 4).flip(0)
    labels = torch.tensor([[0, 1, 1, 2, 2, 2]] * 2)  # unequal shots
    with torch.no_grad():
        logits = model(support, labels, query, 3)
        z, zq = (model.embed(x.flatten(0, 1)).unflatten(0, x.shape[:2]) for x in (support, query))
        mean, variance = model.prior()
    # At the optimum w_k - mean = variance * sum over n of (onehot - p)_nk z_n: found by descent.
    w = mean.double().repeat(2, 3, 1)
    z64, onehot = z.double(), torch.eye(3, dtype=torch.float64)[labels]
    rate = 1 / (1 / variance + z64.square().sum(dim=(1, 2), keepdim=True))
    for _ in range(20_000):
        p = (z64 @ w.mT).softmax(dim=-1)
        w = w - rate * ((p - onehot).mT @ z64 + (w - mean) / variance)
    torch.testing.assert_close(logits, zq @ w.float().mT, rtol=1e-3, atol=1e-4)
    order, renamed = torch.tensor([4, 0, 5, 2, 1, 3]), torch.tensor([2, 0, 1])
    with torch.no_grad():
        shuffled = model(support[:, order], labels[:, order], query, 3)
        permuted = model(support, renamed[labels], query, 3)
    torch.testing.assert_close(shuffled, logits, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(permuted[:, :, renamed], logits, rtol=1e-4, atol=1e-5)


def test_a_step_classifies_training_classes_and_reaches_every_parameter(make_store: Any) -> None:
    config = Config().with_settings(SETTINGS)
    model = built()
    trainer = Trainer(config, model, make_store([8] * 7, size=16), torch.device("cpu"))
    before = {name: p.clone() for name, p in model.named_parameters()}
    result = trainer.step(0)
    assert result.images == 6
    assert list(result.numbers) == ["loss", "accuracy"]
    assert [name for name, p in model.named_parameters() if torch.equal(p, before[name])] == []


def test_evaluation_embeds_each_image_once_and_agrees_with_forward(make_store: Any) -> None:
    model, store = built("method.prior_scale=20"), make_store([8] * 4, size=16)
    sampler = EpisodeSampler(store, 3, 2, 5, seed=0)
    episode = sampler.batch(0, 6)
    pixels = [
        torch.from_numpy(store.images[rows]).permute(0, 1, 4, 2, 3)
        for rows in (episode.support, episode.query)
    ]
    with torch.no_grad():
        logits = model(pixels[0], torch.from_numpy(episode.support_labels), pixels[1], 3)
    right = (logits.argmax(dim=2).numpy() == episode.query_labels).mean()
    assert evaluate_tasks(model, sampler, 6).accuracy == pytest.approx(right)
    assert model.images_embedded(10, 100) == 10
    assert model.as_embedding() == (model.backbone, "cosine")


@pytest.mark.parametrize("setting", ["method.batch_size=1", "method.prior_scale=0"])
def test_settings_have_limits(setting: str) -> None:
    with pytest.raises(UserError, match=setting.partition("=")[0]):
        Config().with_settings([*SETTINGS, setting])
