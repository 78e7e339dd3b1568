"""Tiny data and recipes for end-to-end tests: seconds, not minutes."""

from pathlib import Path

import numpy as np
from PIL import Image

#: Smallest model and budget that still runs every part: TEN, co-training, validation.
SETTINGS = (
    "data.image_size=16",
    "episode.way=2",
    "episode.shot=2",
    "episode.queries=4",
    "backbone.width=2",
    "auxiliary.batch_size=4",
    "schedule.episodes=6",
    "validation.every=3",
    "validation.tasks=3",
    "validation.queries=4",
    "run.log_every=1",
    "run.checkpoint_every=2",
)


def write_image_folder(root: Path, classes: int = 10, images: int = 6, side: int = 20) -> Path:
    """A folder of PNGs, each class a colour of its own under noise."""
    generator = np.random.default_rng(0)
    for k in range(classes):
        folder = root / f"class{k:02}"
        folder.mkdir(parents=True)
        colour = generator.integers(0, 200, 3)
        for i in range(images):
            pixels = colour + generator.integers(0, 55, (side, side, 3))
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i}.png")
    return root


def arguments(settings: tuple[str, ...] = SETTINGS) -> list[str]:
    """The settings as command-line arguments."""
    return [part for setting in settings for part in ("--set", setting)]
