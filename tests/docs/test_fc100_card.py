"""The card of the shipped model fc100 says what was measured, and with which weights."""

import json
from pathlib import Path

import pytest

from as_tadam import as_tadam
from tadam.models.find import WEIGHTS
from tadam.models.modelfile import load_model
from tadam.recipes import load_recipe

CARD = (WEIGHTS / "fc100.md").read_text(encoding="utf-8")
RUN = json.loads((Path(__file__).parents[2] / "docs" / "fc100.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("row", "accuracy", "interval"),
    [
        ("conditioning on", "accuracy", "ci95"),
        ("conditioning off", "accuracy_unconditioned", "ci95_unconditioned"),
    ],
)
def test_the_card_has_the_measured_accuracies(row: str, accuracy: str, interval: str) -> None:
    cells = [RUN["test"][shot] for shot in ("1", "5", "10")]
    texts = [f"{100 * cell[accuracy]:.2f} ± {100 * cell[interval]:.2f}" for cell in cells]
    assert f"| {row} | {' | '.join(texts)} |" in CARD


def test_the_shipped_weights_are_those_that_validation_chose() -> None:
    model, info = load_model(WEIGHTS / "fc100.safetensors")
    assert info.config == load_recipe("fc100")
    assert info.step == RUN["best_step"]
    assert info.validation["accuracy"] == pytest.approx(RUN["validation"]["accuracy"])
    assert f"alpha of {as_tadam(model).metric.alpha.item():.2f}" in CARD
    assert (WEIGHTS / "fc100.safetensors").stat().st_size < 20e6
