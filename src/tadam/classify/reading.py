"""A user's images, of any kind and size, read in parallel and made ready for a network."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from tadam.data.decode import Pixels, decode_upright, upright
from tadam.data.decode_memory import scaling_cost, taken
from tadam.data.folder import image_files
from tadam.errors import UserError
from tadam.system.progress import Progress

#: Images per batch: this many, or more if they are small, up to so many pixels.
READ_AT_ONCE, _PIXELS_AT_ONCE = 64, 2**18
#: Images of one size are scaled together, up to this many pixels held as floats.
_BLOCK_PIXELS = 2**22
_MOST_THREADS = 8

#: What a user may give as one image.
ImageSource = Path | Image.Image | Pixels


def sources(images: Any) -> list[ImageSource]:
    """The single images that `images` means; nothing is read yet.

    Args:
        images: A path, a folder (all images below it), a PIL image, a uint8 array (H, W),
            (H, W, C) or (N, H, W, C), or any sequence of paths, PIL images and arrays of one image.
    """
    if isinstance(images, (str, os.PathLike)):
        path = _path(images)
        found = image_files(path) if os.path.isdir(path) else [path]
        if not found:
            raise UserError(f"there are no images below {path}: check the path")
        return list(found)
    if isinstance(images, Image.Image):
        return [images]
    if isinstance(images, np.ndarray) and images.ndim > 1:
        single = images.ndim == 2 or (images.ndim == 3 and images.shape[-1] in (1, 3, 4))
        images = images[None] if single else images
    try:
        listed = list(images)
    except TypeError:
        raise UserError(
            f"images must be paths, PIL images or uint8 arrays, got {type(images).__name__}"
        ) from None
    if not listed:
        raise UserError("there are no images: give at least one")
    return [_source(image, number) for number, image in enumerate(listed)]


def _path(image: Any) -> Path:
    """A path that was given; an empty one would mean the current folder."""
    name = os.fspath(image)
    if not isinstance(name, str) or not name:
        raise UserError(f"{name!r} is not the path of an image or a folder: check it")
    return Path(name)


def _source(image: Any, number: int) -> ImageSource:
    if isinstance(image, (str, os.PathLike)):
        return _path(image)
    if isinstance(image, Image.Image):
        return image
    array = np.asarray(image)
    if array.dtype != np.uint8:
        raise UserError(
            f"image {number} is an array of {array.dtype}: give uint8 pixels from 0 to 255, a path "
            "or a PIL image"
        )
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or not array.size:
        raise UserError(
            f"image {number} is an array of shape {array.shape}: an image is (H, W) or (H, W, C) "
            "with 1, 3 or 4 channels"
        )
    return array


def name_of(source: ImageSource, number: int) -> str:
    """What to call an image in a sentence."""
    return str(source) if isinstance(source, Path) else f"image {number}"


def read(source: ImageSource, number: int, size: int, channels: int) -> Pixels:
    """The pixels of one image, (H, W, channels) uint8.

    Args:
        source: The image.
        number: Its place among the others, for errors.
        size: What it will be scaled to.
        channels: 1 or 3.
    """
    if isinstance(source, Path):
        pixels = decode_upright(source, size)
    elif isinstance(source, Image.Image):
        pixels = upright(source, name_of(source, number))
    elif source.shape[2] == 4:
        pixels = upright(Image.fromarray(source), name_of(source, number))
    else:
        pixels = source
    if pixels.shape[2] == channels:
        return pixels
    if channels == 1:
        return np.asarray(Image.fromarray(pixels).convert("L"))[:, :, None]
    return np.repeat(pixels, channels, axis=2)


@dataclass(frozen=True)
class Prepared:
    """Images that are ready for a network.

    Attributes:
        rows: Their places in the list of sources; a broken one is missing.
        x: (n, C, H, W), as `Backbone.preprocess` gives it.
        thumbnails: What the reader's `thumbnail` makes of each.
    """

    rows: list[int]
    x: Tensor
    thumbnails: list[Any]


#: Number of images in a block, and the result: an error if one of them is broken.
_Outcome = tuple[int, Prepared | UserError]


@dataclass(frozen=True)
class Reader:
    """How images are made ready.

    Attributes:
        preprocess: (N, C, H, W) uint8 -> what the network takes.
        size: Side of the images that the network takes.
        channels: 1 or 3.
        device: Where `preprocess` works.
        thumbnail: What to keep of each image besides: `shrunk`, `thumbnail`, or nothing.
    """

    preprocess: Callable[[Tensor], Tensor]
    size: int
    channels: int
    device: torch.device
    thumbnail: Callable[[Pixels], Any] | None = None

    def batches(
        self,
        images: Sequence[ImageSource],
        progress: Progress | None = None,
        problems: list[str] | None = None,
    ) -> Iterator[Prepared]:
        """Batches of `READ_AT_ONCE` images or more, in order; reads ahead of the network.

        Args:
            images: What to read.
            progress: Called with (images done, total images).
            problems: Gets a sentence for each image that is broken; without it the first such
                sentence is raised.
        """
        most = max(READ_AT_ONCE, _PIXELS_AT_ONCE // self.size**2)
        pool = ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_THREADS))
        try:
            waiting: list[Prepared] = []
            done = 0
            for count, block in _in_order(pool, self._prepare, _blocks(images)):
                done += count
                if isinstance(block, UserError):
                    if problems is None:
                        raise block
                    problems.append(str(block))
                else:
                    waiting.append(block)
                if waiting and (done == len(images) or sum(len(w.rows) for w in waiting) >= most):
                    yield _joined(waiting)
                    waiting = []
                if progress:
                    progress(done, len(images))
            if waiting:
                yield _joined(waiting)
        finally:
            pool.shutdown(cancel_futures=True)

    @torch.inference_mode()
    def _prepare(self, first: int, block: Sequence[ImageSource]) -> _Outcome:
        """Images of one size, or a single one; with several, all of them are arrays."""
        try:
            pixels = [
                read(source, first + i, self.size, self.channels) for i, source in enumerate(block)
            ]
        except UserError as error:
            return len(block), error
        with taken(scaling_cost(len(pixels) * pixels[0].shape[0] * pixels[0].shape[1])):
            stack = torch.from_numpy(np.stack(pixels)).to(self.device)
            x = self.preprocess(stack.permute(0, 3, 1, 2))
            small = [self.thumbnail(p) for p in pixels] if self.thumbnail else []
        return len(block), Prepared(list(range(first, first + len(block))), x, small)


def _blocks(images: Sequence[ImageSource]) -> Iterator[tuple[int, Sequence[ImageSource]]]:
    """Number of the first image, and neighbours that can be scaled together."""
    start = 0
    while start < len(images):
        first, stop = images[start], start + 1
        if isinstance(first, np.ndarray):
            most = min(READ_AT_ONCE, max(1, _BLOCK_PIXELS // (first.shape[0] * first.shape[1])))
            while stop < min(start + most, len(images)) and _alike(first, images[stop]):
                stop += 1
        yield start, images[start:stop]
        start = stop


def _alike(array: Pixels, other: ImageSource) -> bool:
    return isinstance(other, np.ndarray) and other.shape == array.shape


def _in_order(
    pool: ThreadPoolExecutor,
    work: Callable[[int, Sequence[ImageSource]], _Outcome],
    blocks: Iterable[tuple[int, Sequence[ImageSource]]],
) -> Iterator[_Outcome]:
    """What becomes of all blocks, in order, with a batch's worth of images under way."""
    pending: deque[tuple[int, Future[_Outcome]]] = deque()
    for first, block in blocks:
        while pending and sum(count for count, _ in pending) >= READ_AT_ONCE:
            yield pending.popleft()[1].result()
        pending.append((len(block), pool.submit(work, first, block)))
    while pending:
        yield pending.popleft()[1].result()


def _joined(parts: list[Prepared]) -> Prepared:
    return Prepared(
        [row for part in parts for row in part.rows],
        torch.cat([part.x for part in parts]),
        [small for part in parts for small in part.thumbnails],
    )
