"""What a data set is to the rest of the program: a description, its files, a loader, a check."""

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
    """A file that its makers publish.

    Attributes:
        url: Where.
        path: Where it goes below the data folder.
        md5: What the whole file must hash to, as published.
    """

    url: str
    path: str
    md5: str


@dataclass(frozen=True)
class Source:
    """A data set by name. Functions take the data folder first.

    Attributes:
        name: What --dataset takes.
        summary: In a few words.
        classes: Of train/val/test.
        images: In all.
        size: Of an image, in pixels.
        licence: Or terms.
        layout: What to put into the data folder, to follow "put"; if it needs nothing there, a
            sentence about that.
        load: One store per split.
        verify: One sentence per problem.
        find: The files that it is read from, none if they are not there; None if it needs none.
        downloads: Empty where there is no official one.
        resizable: Whether images can be had at any size.
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
        """What to do when it is not in the data folder."""
        if self.downloads:
            return f"run 'tadam data prepare {self.name}', or put {self.layout} there yourself"
        return f"put {self.layout} there"


def require_size(config: DataConfig, size: int) -> None:
    """Refuses an image size other than the one that a data set comes in."""
    if config.image_size not in (0, size):
        raise UserError(
            f"data.image_size is {config.image_size}, but {config.name} comes at {size} pixels: "
            "leave it at 0"
        )


def count_problems(
    where: Path,
    counts: Mapping[str, Mapping[str, int]],
    expected: Mapping[str, tuple[int, int]],
) -> list[str]:
    """One sentence for each split that has not as many classes and images as it should."""
    return [
        f"{split} of {where} has {classes} classes and {images:,} images, not "
        f"{expected[split][0]} and {expected[split][1]:,}: get it again"
        for split, by_class in counts.items()
        if (classes := len(by_class), images := sum(by_class.values())) != expected[split]
    ]
