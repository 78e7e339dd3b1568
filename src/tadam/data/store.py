"""ImageStore: all images of a split in one class-major uint8 array."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tadam.errors import UserError

_TURNS = ("rot000", "rot090", "rot180", "rot270")  # counter-clockwise


@dataclass(frozen=True)
class ImageStore:
    """Images sorted by class, so that a class is a range of rows.

    Attributes:
        images: (N, H, W, C) uint8, C = 1 or 3; possibly memory-mapped.
        offsets: (n_classes + 1,) int64; class k is `images[offsets[k]:offsets[k + 1]]`.
        class_names: Name of each class.
        families: What each class is a kind of, such as its superclass; empty if that is not known.

    Examples:
        >>> images = np.zeros((5, 8, 8, 3), dtype=np.uint8)
        >>> store = ImageStore.from_counts(images, counts=[2, 3], class_names=["cat", "dog"])
        >>> store.counts.tolist(), store.image_size
        ([2, 3], 8)
    """

    images: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    class_names: tuple[str, ...]
    families: tuple[str, ...] = ()

    @classmethod
    def from_counts(
        cls, images: npt.NDArray[np.uint8], counts: Sequence[int], class_names: Sequence[str]
    ) -> "ImageStore":
        """Wraps class-major images, given the number of images in each class."""
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] not in (1, 3):
            raise ValueError(
                f"images must be uint8 (N, H, W, 1 or 3), got {images.dtype} {images.shape}"
            )
        if len(counts) != len(class_names) or sum(counts) != len(images):
            raise ValueError("counts, class names and images do not match")
        offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        return cls(images, offsets, tuple(class_names))

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Number of images in each class, (n_classes,)."""
        return np.diff(self.offsets)

    @property
    def image_size(self) -> int:
        return int(self.images.shape[1])

    @property
    def channels(self) -> int:
        return int(self.images.shape[3])

    def class_range(self, start: int, stop: int) -> "ImageStore":
        """Classes `start` to `stop` (exclusive), as a view without copying images."""
        first, last = self.offsets[start], self.offsets[stop]
        return ImageStore(
            self.images[first:last],
            self.offsets[start : stop + 1] - first,
            self.class_names[start:stop],
            self.families[start:stop],
        )

    def in_families(self, family: Callable[[str], str]) -> "ImageStore":
        """The same images, their classes grouped by a function of the class name."""
        return replace(self, families=tuple(family(name) for name in self.class_names))

    def families_of(self, way: int, source: str) -> list[npt.NDArray[np.int64]]:
        """The classes of each family that has at least `way` of them, in the order of the classes.

        Args:
            way: Classes that a task needs.
            source: What to call the data in errors.
        """
        if not self.families:
            raise UserError(f"{source} has no families of classes: leave `within_family` out")
        groups: dict[str, list[int]] = {}
        for k, family in enumerate(self.families):
            groups.setdefault(family, []).append(k)
        found = [np.array(classes) for classes in groups.values() if len(classes) >= way]
        if not found:
            most = max(map(len, groups.values()))
            raise UserError(
                f"no family of {source} has more than {most} classes, but {way}-way tasks within "
                f"a family need {way}: lower the way, or leave `within_family` out"
            )
        return found

    def rotated(self) -> "ImageStore":
        """Adds each class turned by 90, 180 and 270 degrees as three further classes."""
        for name in self.class_names:
            if name.rpartition("/")[2] in _TURNS:
                raise UserError(
                    f"augment.rotated_classes must be false: {name!r} is already a rotated class"
                )
        turned: list[npt.NDArray[np.uint8]] = []
        for start, stop in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            turned += [np.rot90(self.images[start:stop], k, axes=(1, 2)) for k in range(4)]
        names = [f"{name}/{turn}" for name in self.class_names for turn in _TURNS]
        store = ImageStore.from_counts(
            np.concatenate(turned), self.counts.repeat(4).tolist(), names
        )
        return replace(store, families=tuple(f for f in self.families for _ in _TURNS))

    def channel_statistics(self, most: int = 10_000) -> tuple[list[float], list[float]]:
        """Mean and standard deviation of each channel on the 0-255 scale.

        Uses at most `most` evenly spaced images, so the cost does not grow with the data set.
        """
        rows = np.linspace(0, len(self.images) - 1, min(len(self.images), most)).astype(np.int64)
        total = squares = np.zeros(self.channels)
        for some in np.array_split(rows, -(-len(rows) // 256)):  # float64, in chunks to save memory
            pixels = self.images[some].astype(np.float64)
            total = total + pixels.sum(axis=(0, 1, 2))
            squares = squares + np.square(pixels).sum(axis=(0, 1, 2))
        count = len(rows) * self.image_size**2
        mean = total / count
        std = np.sqrt(
            np.maximum(squares / count - mean**2, 1.0)
        )  # a constant channel has no spread
        return mean.tolist(), std.tolist()


def split_stores(
    images: npt.NDArray[np.uint8], counts: Mapping[str, Mapping[str, int]]
) -> dict[str, ImageStore]:
    """Cuts class-major images into one store per split without copying them.

    Args:
        images: (N, H, W, C), ordered by split, then class.
        counts: Images per class, by split and class name, in the order of `images`.
    """
    stores, start = {}, 0
    for split, classes in counts.items():
        stop = start + sum(classes.values())
        stores[split] = ImageStore.from_counts(
            images[start:stop], list(classes.values()), list(classes)
        )
        start = stop
    return stores
