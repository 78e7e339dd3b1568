"""A data set as the rest of the program sees it: description, files, loader, check."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tadam.config import DataConfig
from tadam.data.store import ImageStore
from tadam.errors import UserError
from tadam.system.progress import Progress

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Download:
    """A file that can be downloaded.

    Attributes:
        url: Official address.
        path: Where to save it, relative to the data folder.
        md5: Published checksum of the file.
    """

    url: str
    path: str
    md5: str


@dataclass(frozen=True)
class Source:
    """A named data set. Its functions take the data folder first.

    Attributes:
        name: The name that `--dataset` takes.
        summary: Description in a few words.
        classes: Number of classes in train/val/test.
        images: Total number of images.
        size: Image size in pixels.
        licence: Licence or terms of use.
        layout: Files to put into the data folder, phrased to follow "put"; a sentence if none are
            needed.
        load: Returns one store per split.
        verify: Returns one sentence per problem.
        find: Returns the files to read, or none if any is missing; None if no files are needed.
        downloads: Official downloads, if any.
        resizable: Whether images come at any size.
    """

    name: str
    summary: str
    classes: str
    images: str
    size: str
    licence: str
    layout: str
    load: Callable[[Path, DataConfig, Progress | None], dict[str, ImageStore]]
    verify: Callable[[Path, Progress | None], list[str]]
    find: Callable[[Path], list[Path]] | None = None
    downloads: tuple[Download, ...] = ()
    resizable: bool = False

    def how_to_get(self) -> str:
        """What to do when its files are not in the data folder."""
        if self.downloads:
            return f"run 'tadam data prepare {self.name}', or put {self.layout} there yourself"
        return f"put {self.layout} there"


def require_size(config: DataConfig, size: int) -> None:
    """Refuses any image size but the data set's own."""
    if config.image_size not in (0, size):
        raise UserError(
            f"data.image_size is {config.image_size}, but {config.name} images are {size} pixels: "
            "leave it at 0"
        )


def count_problems(
    where: Path,
    counts: Mapping[str, Mapping[str, int]],
    expected: Mapping[str, tuple[int, int]],
) -> list[str]:
    """One sentence for each split with the wrong number of classes or images."""
    return [
        f"{split} of {where} has {classes} classes and {images:,} images, "
        f"expected {expected[split][0]} and {expected[split][1]:,}: download it again"
        for split, by_class in counts.items()
        if (classes := len(by_class), images := sum(by_class.values())) != expected[split]
    ]
