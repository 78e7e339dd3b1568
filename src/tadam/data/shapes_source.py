"""`shapes` as a data set: drawn once, then read from the cache."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from tadam.config import DataConfig
from tadam.data import shapes
from tadam.data.cache import cache_path, cached_array
from tadam.data.source import SPLITS, Source, require_size
from tadam.data.store import ImageStore, split_stores
from tadam.system.progress import Progress

_CACHE = f"shapes-v{shapes.VERSION}"


def load_shapes() -> dict[str, ImageStore]:
    """The built-in benchmark, one store per split."""
    splits, names = shapes.split_classes(), shapes.class_names()
    count, size = shapes.IMAGES_PER_CLASS, shapes.IMAGE_SIZE

    def fill(out: npt.NDArray[np.uint8]) -> None:
        out[:] = _drawn().reshape(out.shape)

    images = cached_array(_CACHE, (len(names) * count, size, size, 3), fill)
    counts = {part: {names[k]: count for k in splits[part]} for part in SPLITS}
    stores = split_stores(images, counts)
    return {part: store.in_families(shapes.free_attribute) for part, store in stores.items()}


def _drawn() -> npt.NDArray[np.uint8]:
    splits = shapes.split_classes()
    return shapes.draw()[[k for part in SPLITS for k in splits[part]]]


def _load(root: Path, config: DataConfig, progress: Progress | None) -> dict[str, ImageStore]:
    require_size(config, shapes.IMAGE_SIZE)
    return load_shapes()


def _verify(root: Path, progress: Progress | None) -> list[str]:
    cached = np.concatenate([store.images for store in load_shapes().values()])
    if np.array_equal(cached, _drawn().reshape(cached.shape)):
        return []
    return [f"{cache_path(_CACHE)} is damaged: delete it and it will be drawn again"]


SHAPES = Source(
    name="shapes",
    summary="built-in benchmark: shape, texture and colour, drawn on first use",
    classes="64/16/20",
    images="12,000",
    size=f"{shapes.IMAGE_SIZE}x{shapes.IMAGE_SIZE}",
    licence="Apache-2.0",
    layout="built in: nothing to download",
    load=_load,
    verify=_verify,
)
