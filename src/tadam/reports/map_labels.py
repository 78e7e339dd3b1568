"""Names beside points on a map, placed so that no two of them overlap."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

#: Width of a letter and height of a line, as shares of the font's size; on the safe side.
_LETTER, _LINE = 0.6, 1.2
_LONGEST = 22
#: Half the size of a point that no name may cover, and distances at which a name is tried.
_POINT, _DISTANCES = 11.0, (14.0, 30.0, 50.0, 75.0)
#: Directions in which it is tried: above first, then below, right, left and the corners.
_DIRECTIONS = ((0, -1), (0, 1), (1, 0), (-1, 0), (1, -1), (-1, -1), (1, 1), (-1, 1))

_Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class MapLabel:
    """A name on the map.

    Attributes:
        text: What is written, perhaps shortened.
        x: Its middle.
        y: Its middle.
        box: Left, top, right and bottom.
        far: Whether a line should lead to its point.
    """

    text: str
    x: float
    y: float
    box: _Box
    far: bool


def place_labels(
    points: npt.NDArray[Any], names: Sequence[str], font: float, width: float, height: float
) -> list[MapLabel | None]:
    """A place for each name; None where there is no room.

    Args:
        points: (K, 2).
        names: What they are called.
        font: Size of the letters.
        width: Of the map.
        height: Of the map.
    """
    apart = np.linalg.norm(points[:, None] - points[None], axis=2) if len(points) else points
    order = np.argsort([np.sort(row)[1] if len(row) > 1 else 0 for row in apart], kind="stable")
    taken: list[_Box] = [(x - _POINT, y - _POINT, x + _POINT, y + _POINT) for x, y in points]
    placed: list[MapLabel | None] = [None] * len(names)
    for k in order[::-1]:  # where there is most room, names stay close to their points
        text = names[k] if len(names[k]) <= _LONGEST else f"{names[k][: _LONGEST - 1]}…"
        size = (_LETTER * font * max(1, len(text)), _LINE * font)
        for x, y, far in _candidates(points[k], size):
            box = (x - size[0] / 2, y - size[1] / 2, x + size[0] / 2, y + size[1] / 2)
            inside = box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height
            if inside and not any(_overlap(box, other) for other in taken):
                placed[k] = MapLabel(text, x, y, box, far)
                taken.append(box)
                break
    return placed


def _candidates(
    point: npt.NDArray[Any], size: tuple[float, float]
) -> list[tuple[float, float, bool]]:
    """Middles of the places that are tried, and whether they are far from the point."""
    return [
        (
            float(point[0]) + right * (distance + size[0] / 2),
            float(point[1]) + down * (distance + size[1] / 2),
            distance > _DISTANCES[1],
        )
        for distance in _DISTANCES
        for right, down in _DIRECTIONS
    ]


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def labels_svg(
    kind: str,
    points: npt.NDArray[Any],
    names: Sequence[str],
    font: float,
    width: float,
    height: float,
) -> str:
    """All names that have room, as one group of the class `kind`."""
    parts = []
    placed = place_labels(points, names, font, width, height)
    for (x, y), label, name in zip(points, placed, names, strict=True):
        if label is None:
            continue
        if label.far:
            parts.append(f'<path class="leader" d="M{x:.1f} {y:.1f}L{label.x:.1f} {label.y:.1f}"/>')
        parts.append(
            f'<text x="{label.x:.1f}" y="{label.y + 0.35 * font:.1f}" font-size="{font:g}">'
            f"{escape(label.text)}<title>{escape(name)}</title></text>"
        )
    return f'<g class="{kind}">{"".join(parts)}</g>'
