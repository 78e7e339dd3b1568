"""The built-in benchmark `shapes`: 100 classes of small pictures, drawn here with no download.

A picture shows one object, a shape with a texture and a colour, on a cluttered background. A class
fixes two of the three attributes and leaves the third free: "striped star (any colour)", "red star
(any texture)", "red striped (any shape)". So what tells two classes apart changes from task to
task: shape cannot separate two kinds of star, but it alone separates a star from a heart. Within a
family, the classes that leave the same attribute free, that attribute only misleads. Task
conditioning can exploit this if it sees what varies within classes; the mean of the prototypes does
not show it (docs/explain/findings.md has the measurements). Validation and test classes are new
combinations of attribute values seen in training.

The pixels are identical, bit for bit, on every machine and with every NumPy, so that results can be
compared. Hence two rules for editing this file (and bump `VERSION` when pixels change):

* Draw randomness only from `PCG64.random_raw`, converted to doubles by hand. NumPy promises that a
  bit generator's raw stream never changes, but makes no such promise for `Generator`'s methods.
* Use only operations that IEEE 754 rounds exactly: + - * / sqrt, floor, abs, min, max, comparisons.
  sin, cos, exp and pow differ in the last bit between builds, and sums and matrix products depend
  on the machine's vector width. Rotations therefore use the rational circle.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

VERSION = 1
IMAGE_SIZE = 32
IMAGES_PER_CLASS = 120

OUTLINES = ("disc", "square", "triangle", "star", "cross", "ring", "heart", "bar")
# Keep "rimmed" last: it needs an object's outline, so backgrounds choose from the others.
TEXTURES = ("plain", "striped", "checked", "dotted", "halved", "rimmed")
COLOURS = ("red", "yellow", "green", "cyan", "blue", "purple")
_RGB = np.array(
    [
        [0.92, 0.16, 0.16], [0.97, 0.80, 0.12], [0.16, 0.68, 0.24],
        [0.12, 0.78, 0.85], [0.16, 0.30, 0.94], [0.62, 0.20, 0.80],
    ]
)  # fmt: skip
_DISTRACTORS = 2
# How many classes leave each attribute free, in the same proportions in every split.
_MIXTURES = {
    "train": {"colour": 31, "texture": 19, "shape": 14},
    "val": {"colour": 7, "texture": 5, "shape": 4},
    "test": {"colour": 10, "texture": 6, "shape": 4},
}


class ShapeClass(NamedTuple):
    """The attributes a class fixes, as indices; None marks the one that varies between images."""

    shape: int | None
    texture: int | None
    colour: int | None

    @property
    def name(self) -> str:
        """The class in words, such as "striped star (any colour)"."""
        words = [
            None if self.colour is None else COLOURS[self.colour],
            None if self.texture is None else TEXTURES[self.texture],
            None if self.shape is None else OUTLINES[self.shape],
        ]
        free = ("colour", "texture", "shape")[words.index(None)]
        return f"{' '.join(word for word in words if word)} (any {free})"


class _Dice:
    """A random stream that is identical everywhere (see the module docstring)."""

    def __init__(self, *key: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([VERSION, *key]))

    def raw(self, count: int) -> npt.NDArray[np.uint64]:
        """64-bit integers, (count,)."""
        return np.asarray(self._bits.random_raw(count), dtype=np.uint64)

    def between(self, low: float, high: float, *shape: int) -> Floats:
        """Uniform numbers in [low, high); one per image, (N, 1, 1), unless a shape is given."""
        shape = shape or (IMAGES_PER_CLASS, 1, 1)
        count = 1
        for length in shape:
            count *= length
        unit = (self.raw(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return (low + (high - low) * unit).reshape(shape)

    def pick(self, options: int) -> Ints:
        """A random index below `options` for every image, (N,)."""
        return np.floor(self.between(0, options, IMAGES_PER_CLASS)).astype(np.int64)

    def turn(self, x: Floats, y: Floats, tilt: float = 1.0) -> tuple[Floats, Floats]:
        """Coordinates in a frame turned by up to 2 atan(tilt) either way, 90 degrees by default."""
        t = self.between(-tilt, tilt)
        cos, sin = (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)
        return cos * x + sin * y, cos * y - sin * x


def _choose_classes() -> tuple[ShapeClass, ...]:
    """Every shape with every texture, plus some pairs with a colour; train, then val, then test.

    Colour is by far the easiest attribute to learn, so it defines only half of the classes: with
    more, a network learns colour and never looks at shape or texture.
    """
    shapes, textures, colours = range(len(OUTLINES)), range(len(TEXTURES)), range(len(COLOURS))
    pairs = {
        "colour": [ShapeClass(s, t, None) for s in shapes for t in textures],
        "texture": [ShapeClass(s, None, c) for s in shapes for c in colours],
        "shape": [ShapeClass(None, t, c) for t in textures for c in colours],
    }
    dice = _Dice(0)
    shuffled = {k: iter([v[i] for i in np.argsort(dice.raw(len(v)))]) for k, v in pairs.items()}
    return tuple(
        next(shuffled[free])
        for mixture in _MIXTURES.values()
        for free, count in mixture.items()
        for _ in range(count)
    )


CLASSES = _choose_classes()


def class_names() -> tuple[str, ...]:
    """One readable, unique name per class."""
    return tuple(c.name for c in CLASSES)


def free_attribute(name: str) -> str:
    """The family of a class, such as "any colour": what differs between its pictures."""
    return name.partition("(")[2].removesuffix(")")


def split_classes() -> dict[str, tuple[int, ...]]:
    """Class indices by split: "train", "val" and "test"."""
    splits, start = {}, 0
    for name, mixture in _MIXTURES.items():
        size = sum(mixture.values())
        splits[name] = tuple(range(start, start + size))
        start += size
    return splits


def draw() -> npt.NDArray[np.uint8]:
    """All pictures, (classes, images, height, width, RGB)."""
    return np.stack([draw_class(index) for index in range(len(CLASSES))])


def _length(x: Floats, y: Floats) -> Floats:
    return np.sqrt(x * x + y * y)


def _triangle(x: Floats, y: Floats) -> Floats:
    slope = 0.8660254 * np.abs(x) - 0.5 * y
    return np.maximum(y, slope) - 0.56


def _star(x: Floats, y: Floats) -> Floats:
    # A pentagram is where at most one of five half-planes is exceeded, so use the second largest.
    largest = np.full_like(x, -9.0)
    second = largest
    for nx, ny in ((0, 1), (0.9510565, 0.309017), (0.5877853, -0.809017)):
        for side in (-1, 1) if nx else (1,):
            depth = side * nx * x + ny * y
            second = np.maximum(second, np.minimum(largest, depth))
            largest = np.maximum(largest, depth)
    return second - 0.38


def _cross(x: Floats, y: Floats) -> Floats:
    x, y = np.abs(x), np.abs(y)
    return np.maximum(np.minimum(x, y) - 0.33, np.maximum(x, y) - 0.98)


def _heart(x: Floats, y: Floats) -> Floats:
    # A square on its corner with a disc on each upper side; the last term rounds the notch.
    side = 0.55
    x, y = 0.70710678 * (x - y) + 0.18, 0.70710678 * (-x - y) + 0.18
    right, top = _length(x - side, y) - side, _length(x, y - side) - side
    outside = np.minimum(np.maximum(np.abs(x), np.abs(y)) - side, np.minimum(right, top))
    inside = np.maximum(np.where(x > side, right, -side - y), np.where(y > side, top, -side - x))
    return np.where(outside > 0, outside, np.maximum(inside, -_length(x - side, y - side)))


# Signed distance to the outline, negative inside, for a shape of radius about 1.
_OUTLINES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "disc": lambda x, y: _length(x, y) - 0.88,
    "square": lambda x, y: np.maximum(np.abs(x), np.abs(y)) - 0.78,
    "triangle": _triangle,
    "star": _star,
    "cross": _cross,
    "ring": lambda x, y: np.abs(_length(x, y) - 0.7) - 0.27,
    "heart": _heart,
    "bar": lambda x, y: np.maximum(np.abs(x) - 1.1, np.abs(y) - 0.4),
}


def _outline(shape: Ints, x: Floats, y: Floats) -> Floats:
    """Signed distance of every pixel to its image's shape, (N, height, width)."""
    distance = np.empty_like(x)
    for index, name in enumerate(OUTLINES):
        rows = shape == index
        distance[rows] = _OUTLINES[name](x[rows], y[rows])
    return distance


def _soft(depth: Floats) -> Floats:
    """Coverage of a pixel whose centre lies `depth` pixels inside an edge: anti-aliasing."""
    return np.minimum(np.maximum(depth + 0.5, 0.0), 1.0)


def _wave(x: Floats) -> Floats:
    """Triangle wave of period 1 between -1 and 1."""
    return 4 * np.abs(x - np.floor(x) - 0.5) - 1


# Share of the second colour in a pixel. x, y: in periods; p: period in pixels; d: the outline.
_PATTERNS: dict[str, Callable[[Floats, Floats, Floats, Floats], Floats]] = {
    "plain": lambda x, y, p, d: np.zeros_like(x),
    "striped": lambda x, y, p, d: _soft(_wave(x) * p / 4),
    "checked": lambda x, y, p, d: _soft(_wave(x * 0.65) * _wave(y * 0.65) * p / 2),
    "dotted": lambda x, y, p, d: _soft(
        p * (0.27 - _length((1 + _wave(x)) / 4, (1 + _wave(y)) / 4))
    ),
    "halved": lambda x, y, p, d: _soft(x * p),
    "rimmed": lambda x, y, p, d: _soft(d + p * 0.32),
}


def _pattern(texture: Ints, x: Floats, y: Floats, period: Floats, outline: Floats) -> Floats:
    """Share of the second colour in every pixel, (N, height, width)."""
    x, y = x / period, y / period
    share = np.empty_like(x)
    for index, name in enumerate(TEXTURES):
        rows = texture == index
        share[rows] = _PATTERNS[name](x[rows], y[rows], period[rows], outline[rows])
    return share


def _paint(canvas: Floats, colour: Floats, cover: Floats) -> Floats:
    """Paints a colour, (N, 1, 1, 3) or per pixel, over the canvas with opacity `cover`."""
    return canvas + (colour - canvas) * cover[..., None]


def draw_class(index: int) -> npt.NDArray[np.uint8]:
    """The images of one class, (N, height, width, 3)."""
    dice = _Dice(1, index)
    count, size = IMAGES_PER_CLASS, IMAGE_SIZE
    free = (dice.pick(len(OUTLINES)), dice.pick(len(TEXTURES)), dice.pick(len(COLOURS)))
    shape, texture, colour = (
        varying if fixed is None else np.full(count, fixed)
        for fixed, varying in zip(CLASSES[index], free, strict=True)
    )
    axis: Floats = np.arange(size, dtype=np.float64) - (size - 1) / 2
    x, y = axis[None, None, :], axis[None, :, None]

    # Background: a dark, muted colour with a faint, coarse texture of its own.
    grey = dice.between(0.05, 0.4, count, 1, 1, 1)
    ground = grey + dice.between(-0.08, 0.08, count, 1, 1, 3)
    bx, by = dice.turn(x - dice.between(-12, 12), y - dice.between(-12, 12))
    faint = _pattern(dice.pick(len(TEXTURES) - 1), bx, by, dice.between(7, 14), bx)
    canvas = _paint(ground, ground + dice.between(-0.06, 0.08, count, 1, 1, 1), faint)

    # Clutter: small plain shapes in any colour, faded into the background.
    for _ in range(_DISTRACTORS):
        radius = dice.between(2.5, 4.5)
        cx, cy = dice.turn(x - dice.between(-15, 15), y - dice.between(-15, 15))
        edge = radius * _outline(dice.pick(len(OUTLINES)), cx / radius, cy / radius)
        tint = dice.between(0, 0.8, count, 1, 1, 3)
        canvas = _paint(canvas, tint, _soft(-edge) * dice.between(0.15, 0.45))

    # The object, with a soft shadow that lifts it off the background.
    radius = dice.between(9.5, 12.5)
    ox, oy = x - dice.between(-5.5, 5.5), y - dice.between(-5.5, 5.5)
    sx, sy = dice.turn(ox, oy, tilt=0.25)
    edge = radius * _outline(shape, sx / radius, sy / radius)
    tx, ty = dice.turn(ox, oy)
    first = _RGB[colour][:, None, None, :] + dice.between(-0.07, 0.07, count, 1, 1, 3)
    # The second colour is always a pale tint of the first.
    second = first + (1 - first) * dice.between(0.75, 0.95, count, 1, 1, 1)
    share = _pattern(texture, tx, ty, dice.between(5.5, 7.5), edge)
    canvas = canvas * (1 - 0.5 * _soft(0.3 - edge / 4))[..., None]
    canvas = _paint(canvas, _paint(first, second, share), _soft(-edge))

    # Lighting: overall brightness and a gradient across the picture; then sensor noise.
    lx, _ = dice.turn(x, y)
    light = dice.between(0.6, 1.15) * (1 + dice.between(0, 0.02) * lx)
    grain = dice.between(-1, 1, count, size, size, 3) + dice.between(-1, 1, count, size, size, 3)
    canvas = canvas * light[..., None] + dice.between(0.005, 0.025, count, 1, 1, 1) * grain
    return np.floor(np.minimum(np.maximum(canvas, 0.0), 1.0) * 255 + 0.5).astype(np.uint8)
