"""A map of a task: prototypes, support and classified images in two dimensions, as inline SVG."""

import colorsys
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from tadam.reports.figure import PALETTE
from tadam.reports.map_labels import labels_svg

Points = npt.NDArray[Any]

#: Points that the directions are computed from; more would only take longer.
_FITTED = 1000
_WIDTH, _HEIGHT, _MARGIN = 960, 560, 40
#: More names than this would hide the points; hovering shows them instead.
_MOST_NAMES = 60
#: Size of the names on a wide screen and on a phone, where the map is shown at a third of its size.
_FONTS = {"wide": 15, "narrow": 34}
_GOLDEN = 0.61803398875

STYLE = """
.map text { font-weight: 600; fill: var(--ink); stroke: var(--paper); stroke-width: 4px;
            paint-order: stroke; text-anchor: middle; cursor: default; }
.map .leader { stroke: var(--soft); stroke-width: 1.5px; } .map .narrow { display: none; }
.map .image { fill-opacity: 0.55; } .map .support { fill: none; stroke-width: 2.5px; }
.map .prototype { stroke: var(--ink); stroke-width: 2px; }
.map .unknown { fill: none; stroke: var(--soft); stroke-width: 2px; }
@media (max-width: 600px) { .map .wide { display: none; } .map .narrow { display: inline; }
  .map circle { r: 10px; } }
"""


def class_colours(count: int) -> list[str]:
    """Colours that can be told apart, as far as that many can, on white and on black."""
    chosen = [colour for colour in PALETTE if colour != "#000000"]
    if count <= len(chosen):
        return chosen[:count]
    colours = []
    for k in range(count):  # neighbours are far apart in hue; three shades set the rest apart
        lightness = (0.45, 0.62, 0.53)[k % 3]
        rgb = colorsys.hls_to_rgb(k * _GOLDEN % 1, lightness, (0.75, 0.6)[k % 2])
        colours.append("#" + "".join(f"{round(255 * part):02x}" for part in rgb))
    return colours


def principal_axes(points: Points) -> tuple[Points, float]:
    """The two directions of largest spread, (2, D), and their share of the total spread."""
    rows = points[np.linspace(0, len(points) - 1, min(len(points), _FITTED)).astype(int)]
    centred = (rows - rows.mean(axis=0)).astype(np.float64)
    # From inner products of points, because a (D, D) matrix can be too large.
    values, vectors = np.linalg.eigh(centred @ centred.T)
    total = max(float(values.clip(min=0).sum()), 1e-12)
    values, vectors = values[::-1][:2].clip(min=0), vectors[:, ::-1][:, :2]
    axes = np.zeros((2, points.shape[1]))
    found = (centred.T @ vectors).T
    lengths = np.linalg.norm(found, axis=1)
    for i in range(len(found)):
        if lengths[i] > 1e-9 * np.sqrt(total):
            sign = np.sign(found[i][np.abs(found[i]).argmax()])  # else the sign would be arbitrary
            axes[i] = sign * found[i] / lengths[i]
    return axes, float(values.sum()) / total


class Map:
    """Draws points in the plane that shows most of their spread.

    Args:
        names: Class names.
        colours: Class colours.
        points: All points that will be drawn, (n, D).
        unit: Whether only the direction of a point counts, as for the cosine distance.
    """

    def __init__(
        self, names: Sequence[str], colours: Sequence[str], points: Points, unit: bool
    ) -> None:
        self._names, self._colours, self._unit = names, colours, unit
        points = self._seen(points)
        self._axes, self.share = principal_axes(points)
        flat = points @ self._axes.T
        self._middle = (flat.min(axis=0) + flat.max(axis=0)) / 2
        spread = np.maximum(flat.max(axis=0) - flat.min(axis=0), 1e-9)
        room = np.array([_WIDTH, _HEIGHT]) - 2 * _MARGIN
        self._scale = float((room / spread).min())
        self._parts: list[str] = []

    def _seen(self, points: Points) -> Points:
        if not self._unit:
            return points
        lengths: Points = np.linalg.norm(points, axis=1, keepdims=True)
        return points / np.maximum(lengths, 1e-12)

    def _places(self, points: Points) -> Points:
        flat: Points = (self._seen(points) @ self._axes.T - self._middle) * self._scale
        return flat * (1, -1) + (_WIDTH / 2, _HEIGHT / 2)

    def images(self, points: Points, classes: Sequence[int | None], titles: Sequence[str]) -> None:
        """Draws classified images; class None is an unknown one."""
        for (x, y), k, title in zip(self._places(points), classes, titles, strict=True):
            hover = f"<title>{escape(title)}</title>"
            if k is None:
                cross = f"M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10"
                self._parts.append(f'<path class="unknown" d="{cross}">{hover}</path>')
            else:
                self._parts.append(
                    f'<circle class="image" cx="{x:.1f}" cy="{y:.1f}" r="5" '
                    f'fill="{self._colours[k]}">{hover}</circle>'
                )

    def support(self, points: Points, classes: Sequence[int]) -> None:
        """Draws labelled images."""
        for (x, y), k in zip(self._places(points), classes, strict=True):
            self._parts.append(
                f'<circle class="support" cx="{x:.1f}" cy="{y:.1f}" r="7" '
                f'stroke="{self._colours[k]}"><title>labelled: {escape(self._names[k])}</title>'
                "</circle>"
            )

    def prototypes(self, points: Points) -> None:
        """Draws a prototype per class, named where there is room."""
        places = self._places(points)
        for (x, y), name, colour in zip(places, self._names, self._colours, strict=True):
            self._parts.append(
                f'<path class="prototype" d="M{x:.1f} {y - 10:.1f}l10 10l-10 10l-10 -10z" '
                f'fill="{colour}"><title>{escape(name)}</title></path>'
            )
        if len(self._names) <= _MOST_NAMES:
            self._parts += [
                labels_svg(kind, places, self._names, font, _WIDTH, _HEIGHT)
                for kind, font in _FONTS.items()
            ]

    def svg(self) -> str:
        """The drawing, as wide as the page."""
        return (
            f'<svg class="map" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" role="img" '
            f'aria-label="map of the classes and images">{"".join(self._parts)}</svg>'
        )
