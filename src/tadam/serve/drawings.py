"""Drawings of our own for the sample project and its pictures: boats, houses, trees, fish, lamps.

Every one differs in colour, size, place and sky, as photos of one thing do; the seed decides.
"""

import io
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw

_SIDE = 240
#: Drawn larger and shrunk, for smooth edges.
_SCALE = 3
_GROUNDS = ("#cfe3ef", "#f3e6d3", "#dcebd9", "#e6e0ef", "#f2dcd8", "#dfe4e8", "#f6efc9")
_INKS = ("#c8452f", "#2f6db5", "#e0a526", "#3f8f57", "#7b4fa3", "#d9713c", "#2b8a8f", "#a33a58")

Colour = str
Point = tuple[float, float]


class Pencil:
    """Draws in units of the object, from -1 to 1, wherever the object stands."""

    def __init__(self, image: Image.Image, centre: Point, size: float) -> None:
        self._draw, self._centre, self._size = ImageDraw.Draw(image), centre, size

    def _at(self, point: Point) -> Point:
        return (
            self._centre[0] + self._size * point[0],
            self._centre[1] + self._size * point[1],
        )

    def shape(self, colour: Colour, *points: Point) -> None:
        """A filled polygon."""
        self._draw.polygon([self._at(point) for point in points], fill=colour)

    def round(self, colour: Colour, left: float, top: float, right: float, bottom: float) -> None:
        """A filled ellipse in a box."""
        self._draw.ellipse([self._at((left, top)), self._at((right, bottom))], fill=colour)

    def box(self, colour: Colour, left: float, top: float, right: float, bottom: float) -> None:
        """A filled rectangle."""
        self._draw.rectangle([self._at((left, top)), self._at((right, bottom))], fill=colour)


def _boat(pencil: Pencil, one: Colour, other: Colour) -> None:
    pencil.box("#5b4636", -0.04, -0.95, 0.04, 0.4)
    pencil.shape(one, (0.1, -0.9), (0.1, 0.25), (0.85, 0.25))
    pencil.shape("#fbfaf5", (-0.1, -0.7), (-0.1, 0.25), (-0.7, 0.25))
    pencil.shape(other, (-0.95, 0.38), (0.95, 0.38), (0.62, 0.85), (-0.62, 0.85))


def _house(pencil: Pencil, one: Colour, other: Colour) -> None:
    pencil.box(other, -0.7, -0.1, 0.7, 0.9)
    pencil.shape(one, (-0.92, -0.1), (0, -0.85), (0.92, -0.1))
    pencil.box("#6b4a34", -0.15, 0.35, 0.2, 0.9)
    pencil.box("#fdf6d8", -0.52, 0.08, -0.24, 0.34)
    pencil.box("#fdf6d8", 0.3, 0.08, 0.56, 0.34)


def _tree(pencil: Pencil, one: Colour, other: Colour) -> None:
    pencil.box("#6b4a34", -0.1, 0.2, 0.1, 0.95)
    for left, top in ((-0.75, -0.45), (-0.05, -0.5), (-0.4, -0.9)):
        pencil.round(one, left, top, left + 0.8, top + 0.85)
    pencil.round(other, -0.3, -0.35, -0.14, -0.19)
    pencil.round(other, 0.25, -0.2, 0.41, -0.04)


def _fish(pencil: Pencil, one: Colour, other: Colour) -> None:
    pencil.shape(other, (0.5, 0), (0.98, -0.45), (0.98, 0.45))
    pencil.round(one, -0.95, -0.5, 0.65, 0.5)
    pencil.shape(other, (-0.2, -0.46), (0.3, -0.75), (0.3, -0.4))
    pencil.round("#ffffff", -0.72, -0.22, -0.48, 0.02)
    pencil.round("#20262e", -0.65, -0.16, -0.54, -0.05)


def _lamp(pencil: Pencil, one: Colour, other: Colour) -> None:
    pencil.box("#4a4f57", -0.04, -0.2, 0.04, 0.8)
    pencil.round("#4a4f57", -0.42, 0.7, 0.42, 0.95)
    pencil.round("#fff3b8", -0.25, -0.35, 0.25, 0.12)
    pencil.shape(one, (-0.3, -0.9), (0.3, -0.9), (0.68, -0.12), (-0.68, -0.12))
    pencil.shape(other, (-0.6, -0.26), (0.6, -0.26), (0.68, -0.12), (-0.68, -0.12))


SUBJECTS: dict[str, Callable[[Pencil, Colour, Colour], None]] = {
    "Boat": _boat, "House": _house, "Tree": _tree, "Fish": _fish, "Lamp": _lamp,
}  # fmt: skip


def drawing(subject: str, seed: int, side: int = _SIDE) -> Image.Image:
    """One drawing; the same seed gives the same one."""
    dice = np.random.default_rng([seed, *subject.encode()])
    canvas = side * _SCALE
    image = Image.new("RGB", (canvas, canvas), str(dice.choice(_GROUNDS)))
    horizon = canvas * dice.uniform(0.62, 0.8)
    ImageDraw.Draw(image).rectangle((0, horizon, canvas, canvas), fill=str(dice.choice(_GROUNDS)))
    size = canvas * dice.uniform(0.26, 0.4)
    centre = tuple(canvas / 2 + dice.uniform(-0.1, 0.1, 2) * canvas)
    one, other = (str(colour) for colour in dice.choice(_INKS, 2, replace=False))
    SUBJECTS[subject](Pencil(image, (centre[0], centre[1]), size), one, other)
    image = image.rotate(float(dice.uniform(-12, 12)), Image.Resampling.BILINEAR, fillcolor=None)
    trim = round(canvas * 0.1)  # the corners that turning left black
    image = image.crop((trim, trim, canvas - trim, canvas - trim))
    return image.resize((side, side), Image.Resampling.LANCZOS)


def jpeg(image: Image.Image) -> bytes:
    """A drawing as a file."""
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=88)
    return buffer.getvalue()
