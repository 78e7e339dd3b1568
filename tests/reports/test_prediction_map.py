"""The map: principal axes worked out another way, colours that differ, degenerate points."""

import re

import numpy as np
import numpy.typing as npt
import pytest

from tadam.reports.map_labels import place_labels
from tadam.reports.prediction_map import Map, class_colours, principal_axes


def test_axes_are_those_of_a_singular_value_decomposition() -> None:
    points = np.random.default_rng(0).normal(size=(40, 7)) * np.arange(1, 8)
    axes, share = principal_axes(points)
    _, s, rows = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(np.abs(axes @ rows[:2].T), np.eye(2), atol=1e-9)
    assert share == pytest.approx((s[:2] ** 2).sum() / (s**2).sum())
    np.testing.assert_array_equal(axes, principal_axes(points)[0])
    assert (np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1) > 0).all()


@pytest.mark.parametrize(
    "points", [np.ones((1, 5)), np.ones((4, 5)), np.outer(np.arange(4.0), np.ones(5))]
)
def test_points_that_span_no_plane_are_still_drawn(points: npt.NDArray[np.float64]) -> None:
    drawing = Map(["a"], ["#123456"], points, unit=False)
    drawing.images(points, [0] * len(points), ["x"] * len(points))
    numbers = [float(n) for n in re.findall(r'c[xy]="([^"]+)"', drawing.svg())]
    assert len(numbers) == 2 * len(points)
    assert all(0 <= n <= 960 for n in numbers)


def test_the_length_of_an_embedding_does_not_count_if_only_its_direction_does() -> None:
    points = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 5.0]])
    scaled = points * np.array([[3.0], [1.0], [9.0]])

    def places(rows: npt.NDArray[np.float64], unit: bool) -> str:
        drawing = Map(["a"] * 3, ["#123456"] * 3, rows, unit)
        drawing.prototypes(rows)
        return drawing.svg()

    assert places(points, True) == places(scaled, True)
    assert places(points, False) != places(scaled, False)


def test_an_unknown_image_is_a_cross_and_all_points_say_what_they_are() -> None:
    points = np.random.default_rng(0).normal(size=(4, 3))
    drawing = Map(["a & b", "c"], ["#111111", "#222222"], points, unit=False)
    drawing.images(points[:2], [1, None], ["one.jpg", "two <3>.jpg"])
    drawing.support(points[2:], [0, 1])
    drawing.prototypes(points[:2])
    svg = drawing.svg()
    assert svg.count('class="unknown"') == 1
    assert re.search(r'fill="#222222"><title>one.jpg<', svg)
    assert "<title>two &lt;3&gt;.jpg</title>" in svg
    assert "<title>labelled: a &amp; b</title>" in svg
    assert svg.count("<text") == 4  # for wide and for narrow screens
    assert svg.count("<title>") == 6 + 4


@pytest.mark.parametrize("font", [15, 34])
@pytest.mark.parametrize("spread", [5.0, 60.0, 250.0])
def test_names_never_overlap_each_other_or_a_point(font: float, spread: float) -> None:
    dice = np.random.default_rng(0)
    points = np.clip(dice.normal((480, 280), spread, (40, 2)), 20, (940, 540))
    names = [f"class {'x' * int(n)}" for n in dice.integers(0, 30, 40)]
    placed = place_labels(points, names, font, 960, 560)
    boxes = [label.box for label in placed if label is not None]
    assert boxes
    assert spread == 5 or len(boxes) > 10
    for i, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0
        assert top >= 0
        assert right <= 960
        assert bottom <= 560
        for x, y in points:
            assert not (left < x < right and top < y < bottom)
        for other in boxes[:i]:
            apart = right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
            assert apart


def test_a_lonely_name_stands_above_its_point_and_a_long_one_is_shortened() -> None:
    (label,) = place_labels(np.array([[480.0, 280.0]]), ["a" * 40], 15, 960, 560)
    assert label is not None
    assert label.x == 480
    assert label.y < 280
    assert label.text == "a" * 21 + "…"


def test_names_of_hundreds_of_classes_are_shown_on_hovering_only() -> None:
    points = np.random.default_rng(0).normal(size=(90, 3))
    drawing = Map([f"class {k}" for k in range(90)], class_colours(90), points, unit=False)
    drawing.prototypes(points)
    assert "<text" not in drawing.svg()
    assert "<title>class 29</title>" in drawing.svg()


@pytest.mark.parametrize("count", [2, 6, 7, 300])
def test_colours_differ_and_are_seen_on_white_and_on_black(count: int) -> None:
    colours = class_colours(count)
    assert len(set(colours)) == count
    for colour in colours:
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        assert 0.05 < (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255 < 0.9
