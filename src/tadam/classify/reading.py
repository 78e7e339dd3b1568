"""A user's images, of any kind and size, read in parallel and made ready for a network."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from tadam.classify.memory_images import (
    FloatPixels,
    batch,
    encoded,
    is_encoded,
    upright_pixels,
    whole_pixels,
)
from tadam.data.decode import Pixels, decode_upright, decode_upright_bytes, upright
from tadam.data.decode_memory import scaling_cost, taken
from tadam.data.encoded import Encoded
from tadam.data.folder import image_files
from tadam.data.photo_zip import zipped_photos
from tadam.errors import UserError
from tadam.nn.preprocess import Preprocess
from tadam.system.allocator import return_large_blocks
from tadam.system.progress import Progress

#: Images per batch: this many, or more if they are small, up to so many pixels.
READ_AT_ONCE, _PIXELS_AT_ONCE = 64, 2**18
#: Images of one size are scaled together, up to this many pixels held as floats.
_BLOCK_PIXELS = 2**22
_MOST_THREADS = 8
#: A thread that also runs the network reads this many images, then runs it on them one by one: its
#: weights stay in the cache. With more, the threads would share the work less evenly.
_RUN_AT_ONCE = 4

#: What a user may give as one image.
ImageSource = Path | Image.Image | Pixels | Encoded


def sources(images: Any) -> list[ImageSource]:
    """The single images that `images` means; no file is read yet.

    Args:
        images: A path, a folder or a zip (all images in it), a PIL image, the bytes of an image
            file or an open one, an array or tensor of pixels, or any sequence of these. Pixels are
            (H, W), (H, W, C) or (C, H, W), or N such; uint8, or floats from 0 to 1 or 0 to 255.
    """
    if isinstance(images, (str, os.PathLike)):
        return _files(_path(images))
    if isinstance(images, Image.Image):
        return [images]
    if is_encoded(images):
        return [encoded(images, 0)]
    try:
        listed = list(batch(images))
    except TypeError:
        raise UserError(
            f"images must be paths, PIL images, bytes or arrays, got {type(images).__name__}"
        ) from None
    if not listed:
        raise UserError("there are no images: give at least one")
    return whole_pixels([_source(image, number) for number, image in enumerate(listed)])


def _path(image: Any) -> Path:
    """A path that was given; an empty one would mean the current folder."""
    name = os.fspath(image)
    if not isinstance(name, str) or not name:
        raise UserError(f"{name!r} is not the path of an image or a folder: check it")
    return Path(name)


def _files(path: Path) -> list[ImageSource]:
    if path.suffix.lower() == ".zip" and os.path.isfile(path):
        return [photo for _, photo in zipped_photos(path)]
    found = image_files(path) if os.path.isdir(path) else [path]
    if not found:
        raise UserError(f"there are no images below {path}: check the path")
    return list(found)


def _source(image: Any, number: int) -> ImageSource | FloatPixels:
    if isinstance(image, (str, os.PathLike)):
        return _path(image)
    if isinstance(image, (Image.Image, Encoded)):
        return image
    return encoded(image, number) if is_encoded(image) else upright_pixels(image, number)


def name_of(source: ImageSource, number: int) -> str:
    """What to call an image in a sentence."""
    if isinstance(source, Encoded):
        return source.name
    return str(source) if isinstance(source, Path) else f"image {number}"


def path_of(source: ImageSource) -> str | None:
    """Where an image is; None for one that is in memory."""
    if isinstance(source, Encoded):
        return source.path
    return str(source) if isinstance(source, Path) else None


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
    elif isinstance(source, Encoded):
        pixels = decode_upright_bytes(source.read(), source.name, size)
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
        x: (n, C, H, W), as `Backbone.preprocess` gives it, or their embeddings, (n, D).
        thumbnails: What the reader's `thumbnail` makes of each.
        embedded: Whether `x` holds embeddings.
        keep: What to call with the embeddings once they are known.
    """

    rows: list[int]
    x: Tensor
    thumbnails: list[Any]
    embedded: bool = False
    keep: Callable[[Tensor], None] | None = None


#: Images in a block, what became of those that can be read, and what is wrong with the others.
_Outcome = tuple[int, list[Prepared], list[UserError]]


@dataclass(frozen=True)
class Reader:
    """How images are made ready.

    Attributes:
        preprocess: Makes of pixels what the network takes.
        size: Side of the images that the network takes.
        channels: 1 or 3.
        thumbnail: What to keep of each image besides: `shrunk`, `thumbnail`, or nothing.
        network: What the thread that has read an image does with it next, on its own; see
            `tadam.nn.one_by_one`.
        pool: Threads to read with, each with one PyTorch thread, for a program that reads a few
            images at a time for days; None for new ones each time.
    """

    preprocess: Preprocess
    size: int
    channels: int
    thumbnail: Callable[[Pixels], Any] | None = None
    network: Callable[[Tensor], Tensor] | None = None
    pool: ThreadPoolExecutor | None = None

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
        return_large_blocks()
        most = max(READ_AT_ONCE, _PIXELS_AT_ONCE // self.size**2)
        threads = torch.get_num_threads()
        size = threads if self.network else min(os.cpu_count() or 1, _MOST_THREADS)
        pool = self.pool or reading_threads(size)
        blocks = [(run.start, images[run.start : run.stop]) for run in _runs(images, READ_AT_ONCE)]
        if self.network:
            share = max(1, min(_RUN_AT_ONCE, -(-len(images) // size)))
            blocks = [(i, images[i : i + share]) for i in range(0, len(images), share)]
        try:
            waiting: list[Prepared] = []
            done = 0
            for count, parts, errors in _in_order(pool, self._prepare, blocks):
                done += count
                if errors and problems is None:
                    raise errors[0]
                if problems is not None:
                    problems += map(str, errors)
                waiting += parts
                if waiting and (done == len(images) or sum(len(w.rows) for w in waiting) >= most):
                    yield _joined(waiting)
                    waiting = []
                if progress:
                    progress(done, len(images))
            if waiting:
                yield _joined(waiting)
        finally:
            if self.pool is None:
                pool.shutdown(cancel_futures=True)
                torch.set_num_threads(threads)  # for threads that start later

    @torch.inference_mode()
    def _prepare(self, first: int, block: Sequence[ImageSource]) -> _Outcome:
        parts: list[Prepared] = []
        errors: list[UserError] = []
        for run in _runs(block, READ_AT_ONCE):
            try:
                pixels = [read(block[i], first + i, self.size, self.channels) for i in run]
            except UserError as error:
                errors.append(error)
                continue
            with taken(scaling_cost(len(pixels) * pixels[0].shape[0] * pixels[0].shape[1])):
                x = self.preprocess.photos(pixels, planes=self.network is not None)
                small = [self.thumbnail(p) for p in pixels] if self.thumbnail else []
            parts.append(Prepared([first + i for i in run], x, small))
        if self.network:
            parts = [replace(part, x=self.network(part.x), embedded=True) for part in parts]
        return len(block), parts, errors


def reading_threads(size: int) -> ThreadPoolExecutor:
    """Threads of one core each: PyTorch's own would only get into each other's way."""
    return ThreadPoolExecutor(size, initializer=partial(torch.set_num_threads, 1))


def _runs(images: Sequence[ImageSource], at_once: int) -> Iterator[range]:
    """Neighbours that can be scaled together: arrays of one size, `at_once` at most; or one."""
    start = 0
    while start < len(images):
        first, stop = images[start], start + 1
        if isinstance(first, np.ndarray):
            most = min(at_once, max(1, _BLOCK_PIXELS // (first.shape[0] * first.shape[1])))
            while stop < min(start + most, len(images)) and _alike(first, images[stop]):
                stop += 1
        yield range(start, stop)
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
        parts[0].embedded,
    )
