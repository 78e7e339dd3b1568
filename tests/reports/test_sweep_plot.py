"""The curve of a sweep: drawn and noted in its folder, or left out without matplotlib."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from tadam.reports.sweep_plot import draw_sweep
from tadam.training.sweep import SweepPoint, SweepResult


def sweep(folder: Path) -> SweepResult:
    points = tuple(SweepPoint(a, 0.4 + a / 100, 0.01, 2, 1.0, f"alpha-{a:g}") for a in (1.0, 5.0))
    return SweepResult(folder, "euclidean", "shapes", 2, 1, points)


def test_the_curve_is_drawn_and_the_sweep_names_it(tmp_path: Path) -> None:
    result = sweep(tmp_path)
    drawn = draw_sweep(result)
    assert drawn == replace(result, plot=tmp_path / "alpha.png")
    with Image.open(tmp_path / "alpha.png") as image:
        assert len(image.convert("RGB").getcolors(maxcolors=2**24) or []) > 20
    written = json.loads((tmp_path / "sweep.json").read_text())
    assert written["plot"] == str(tmp_path / "alpha.png")
    assert [p["alpha"] for p in written["points"]] == [1.0, 5.0]


def test_without_matplotlib_nothing_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = sweep(tmp_path)
    assert draw_sweep(result) == result
    assert result.plot is None
    assert not (tmp_path / "alpha.png").exists()
