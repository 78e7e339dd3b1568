"""Data sets by name: what each is, and its train, val and test stores."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tadam.config import DataConfig
from tadam.data import shapes
from tadam.data.cache import cache_path, cached_array
from tadam.data.decode import decode
from tadam.data.folder import DEFAULT_IMAGE_SIZE, class_files, load_folder
from tadam.data.store import ImageStore
from tadam.errors import UserError

SPLITS = ("train", "val", "test")
FOLDER_PREFIX = "folder:"
_SHAPES_CACHE = f"shapes-v{shapes.VERSION}"
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Source:
    """What `tadam data list` says of a data set."""

    name: str
    summary: str
    classes: str  # train/val/test
    images: str
    size: str
    licence: str
    how_to_get: str


SOURCES = (
    Source(
        name="shapes",
        summary="built-in benchmark: shape, texture and colour, drawn on first use",
        classes="64/16/20",
        images=str(100 * shapes.IMAGES_PER_CLASS),
        size=f"{shapes.IMAGE_SIZE}x{shapes.IMAGE_SIZE}",
        licence="Apache-2.0",
        how_to_get="nothing to get",
    ),
    Source(
        name="folder:PATH",
        summary="your own images, one sub-folder per class",
        classes="by seed, or PATH/splits.toml",
        images="any",
        size="any",
        licence="yours",
        how_to_get="point PATH at it",
    ),
)


def load_splits(config: DataConfig, progress: Progress | None = None) -> dict[str, ImageStore]:
    """The three stores of the data set that `config` names.

    Args:
        config: Name, image size and split seed.
        progress: Called with (done, in all) while images are decoded.
    """
    if config.name.startswith(FOLDER_PREFIX):
        return load_folder(_folder(config.name), config.image_size, config.split_seed, progress)
    if config.name == "shapes":
        if config.image_size not in (0, shapes.IMAGE_SIZE):
            raise UserError(
                f"data.image_size is {config.image_size}, but shapes is drawn at "
                f"{shapes.IMAGE_SIZE} pixels: leave it at 0"
            )
        return load_shapes()
    known = ", ".join(source.name for source in SOURCES)
    raise UserError(f"unknown data set {config.name!r}: known are {known}; choose with --dataset")


def load_split(config: DataConfig, split: str, progress: Progress | None = None) -> ImageStore:
    """One store of the data set that `config` names."""
    if split not in SPLITS:
        raise UserError(f"unknown split {split!r}: choose one of {', '.join(SPLITS)}")
    return load_splits(config, progress)[split]


def shapes_are_intact() -> bool:
    """Whether the cached copy of `shapes` is what the code draws."""
    drawn, order = shapes.draw(), [k for part in SPLITS for k in shapes.split_classes()[part]]
    cached = np.concatenate([store.images for store in load_shapes().values()])
    return np.array_equal(cached, drawn[order].reshape(cached.shape))


def load_shapes() -> dict[str, ImageStore]:
    """The built-in benchmark, drawn once and cached."""
    splits, names = shapes.split_classes(), shapes.class_names()
    count, size = shapes.IMAGES_PER_CLASS, shapes.IMAGE_SIZE
    order = [k for part in SPLITS for k in splits[part]]

    def fill(out: "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]") -> None:
        out[:] = shapes.draw()[order].reshape(out.shape)

    images = cached_array(_SHAPES_CACHE, (len(order) * count, size, size, 3), fill)
    store = ImageStore.from_counts(images, [count] * len(order), [names[k] for k in order])
    stores, start = {}, 0
    for part in SPLITS:
        stop = start + len(splits[part])
        stores[part] = store.class_range(start, stop)
        start = stop
    return stores


def verify(name: str, progress: Progress | None = None) -> list[str]:
    """Checks every image of a data set and returns one sentence per problem."""
    if not name.startswith(FOLDER_PREFIX):
        load_splits(DataConfig(name))  # an unknown name is the user's mistake
        cache = cache_path(_SHAPES_CACHE)
        return [] if shapes_are_intact() else [f"{cache} is not as drawn: delete it"]
    files = [path for part in class_files(_folder(name)).values() for path in part]
    problems = []
    for i, path in enumerate(files):
        try:
            decode(path, DEFAULT_IMAGE_SIZE)
        except UserError as error:
            problems.append(str(error))
        if progress:
            progress(i + 1, len(files))
    return problems


def _folder(name: str) -> Path:
    path = Path(name.removeprefix(FOLDER_PREFIX))
    if name == FOLDER_PREFIX:
        raise UserError("folder: needs a path, as in folder:flowers")
    try:
        return path.expanduser()
    except RuntimeError:  # ~nobody
        return path
