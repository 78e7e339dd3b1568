"""Charts: legible, deterministic, and safe to inline several of in one page."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from tadam.errors import UserError
from tadam.reports import plots
from tadam.reports.figure import available, new_figure, save_png, svg_text

NAMES = ["cat", "dog", "a very long name of a class", "$5_a$ & <b>"]


def chart(kind: str) -> Figure:
    steps = [1, 10, 100]
    if kind == "line":
        series = {"train": (steps, [3, 2, 1.01]), "val": (steps, [3, 2, 1.0])}
        return plots.line_chart(series, "step", "loss", logx=True)
    if kind == "curve":
        points = {"5-shot": ([0.5, 1, 2], [0.5, 0.6, 0.4], [0.01, 0.01, 0.01])}
        return plots.curve_with_intervals(
            points, "alpha", "accuracy", logx=True, mark_best=["5-shot"]
        )
    if kind == "bar":
        return plots.bar_chart(
            NAMES, {"a": [1, 0, 3, 4], "b": [1e-4, 1, 1, 1]}, "x", "y", logy=True
        )
    return plots.heatmap(np.arange(16).reshape(4, 4), NAMES, NAMES, xlabel="answer", ylabel="true")


KINDS = ("line", "curve", "bar", "heatmap")


def texts_of(figure: Figure) -> list[str]:
    figure.canvas.draw()
    (axes,) = figure.axes
    ticks = [*axes.get_xticklabels(), *axes.get_yticklabels()]
    return [t.get_text() for t in [*axes.texts, *ticks] if t.get_text()]


@pytest.mark.parametrize("kind", KINDS)
def test_png_has_two_pixels_for_each_css_pixel_and_nothing_is_cut_off(
    kind: str, tmp_path: Path
) -> None:
    figure = chart(kind)
    save_png(figure, tmp_path / "chart.png")
    with Image.open(tmp_path / "chart.png") as image:
        assert image.width == 1280
        pixels = np.asarray(image.convert("RGB"))
    edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    assert (edge == 255).all()
    assert (pixels < 100).any()
    assert [f.name for f in tmp_path.iterdir()] == ["chart.png"]


@pytest.mark.parametrize("kind", KINDS)
def test_svg_is_one_deterministic_element_without_prolog_or_date(kind: str) -> None:
    text = svg_text(chart(kind), 'what "it" shows')
    assert text == svg_text(chart(kind), 'what "it" shows')
    root = ET.fromstring(text)
    assert text.startswith("<svg ")
    assert root.get("width") == "640"
    assert root.get("aria-label") == 'what "it" shows'
    assert not re.search(r"<\?xml|<!DOCTYPE|<metadata|\d{4}-\d\d-\d\d", text)


def test_inlined_figures_share_no_ids_and_every_reference_has_its_target() -> None:
    texts = [svg_text(chart(kind)) for kind in KINDS]
    seen: set[str] = set()
    for text in texts:
        ids = re.findall(r'\bid="([^"]+)"', text)
        references = re.findall(r'(?:href="#|url\(#)([^")]+)', text)
        assert len(ids) == len(set(ids))
        assert set(references) <= set(ids)
        assert not seen & set(ids)
        seen |= set(ids)


def test_style_sheet_of_an_inlined_figure_does_not_reach_the_page() -> None:
    text = svg_text(chart("bar"))
    own = ET.fromstring(text).get("id")
    (style,) = re.findall(r"<style[^>]*>(.*?)</style>", text)
    assert style.startswith(f"#{own} *{{")


def test_names_of_lines_that_end_together_do_not_overlap() -> None:
    x = [0.0, 1.0]
    series = {f"line {i}": (x, [float(i), 1 + i / 1000]) for i in range(6)}
    figure = plots.line_chart(series, "x", "y")
    figure.canvas.draw()
    (axes,) = figure.axes
    boxes = [text.get_window_extent() for text in axes.texts]
    assert [t.get_text() for t in axes.texts] == list(series)
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_best_point_of_a_curve_is_the_highest() -> None:
    assert "best at 1" in texts_of(chart("curve"))


def test_ticks_of_a_curve_are_the_measured_points() -> None:
    figure = chart("curve")
    figure.canvas.draw()
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == ["0.5", "1", "2"]


def test_log_bars_leave_out_zeros_and_use_powers_of_ten() -> None:
    figure = chart("bar")
    assert "10⁻⁴" in texts_of(figure)
    heights = [bar.get_height() for bar in figure.axes[0].patches if isinstance(bar, Rectangle)]
    assert np.isnan(heights[1])
    assert heights[:1] + heights[2:4] == [1, 3, 4]


def test_log_bars_of_zeros_alone_are_drawn_on_a_linear_axis() -> None:
    figure = plots.bar_chart(["1", "2"], {"gamma0": [0.0, 0.0]}, "layer", "", logy=True)
    assert figure.axes[0].get_yscale() == "linear"


def test_heatmap_writes_its_numbers_except_zeros_and_takes_names_literally() -> None:
    texts = texts_of(chart("heatmap"))
    assert {str(n) for n in range(1, 16)} <= set(texts)
    assert "0" not in texts
    assert texts.count("$5_a$ & <b>") == 2
    assert texts.count("a very long name of…") == 2


def test_heatmap_of_a_hundred_classes_has_names_but_no_numbers() -> None:
    names = [f"class {i}" for i in range(100)]
    texts = texts_of(plots.heatmap(np.eye(100), names, names))
    assert 40 < len(texts) <= 200
    assert all(text.startswith("class") for text in texts)


def test_percent_axes_have_no_needless_decimals() -> None:
    figure = plots.line_chart({"a": ([0, 1], [0.0, 1.0])}, "x", "y", percent=True)
    assert {"0%", "20%", "100%"} <= set(texts_of(figure))


def test_missing_matplotlib_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert not available()
    with pytest.raises(UserError) as error:
        new_figure()
    assert str(error.value) == "plots need matplotlib: pip install 'tadam-fewshot[plots]'"


def test_drawing_leaves_matplotlib_as_it_was() -> None:
    before = dict(matplotlib.rcParams)
    svg_text(chart("line"))
    assert dict(matplotlib.rcParams) == before


def test_matplotlib_is_imported_only_when_something_is_drawn() -> None:
    code = "import sys, tadam.reports.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_names_are_never_read_as_formulas_or_markup() -> None:
    root = ET.fromstring(svg_text(chart("bar")))
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert NAMES[3] in texts
