"""Small stores of random pixels."""

from collections.abc import Sequence

import numpy as np

from tadam.data.store import ImageStore


def store_of(counts: Sequence[int], size: int = 2, channels: int = 3) -> ImageStore:
    """A store whose classes, c0 onwards, have `counts` images."""
    shape = (sum(counts), size, size, channels)
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    return ImageStore.from_counts(images, counts, [f"c{k}" for k in range(len(counts))])
