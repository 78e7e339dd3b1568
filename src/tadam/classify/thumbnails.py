"""Small pictures of support images: made, kept for each class, and packed into tensors."""

import io
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from tadam.data.decode import Pixels
from tadam.errors import UserError

#: Support images per class whose pictures are kept for reports.
THUMBNAILS = 8
THUMBNAIL_SIDE = 96
#: Side of the pictures in reports, which are not kept in a classifier's file.
REPORT_SIDE = 192

#: Pixels, (H, W, 1 or 3), or a JPEG of them, made only when it is needed.
Picture = Pixels | bytes


def shrunk(pixels: Pixels, side: int = THUMBNAIL_SIDE) -> Pixels:
    """A small copy of an image, (H, W, 1 or 3)."""
    if max(pixels.shape) <= side:
        return pixels.copy()
    image = _image(pixels)
    image.thumbnail((side, side))
    return np.asarray(image).reshape(image.height, image.width, -1)


def _jpeg(pixels: Pixels) -> bytes:
    content = io.BytesIO()
    _image(pixels).save(content, format="JPEG", quality=80)
    return content.getvalue()


def thumbnail(pixels: Pixels) -> bytes:
    """A small JPEG of an image, (H, W, 1 or 3), for a report."""
    return _jpeg(shrunk(pixels, REPORT_SIDE))


def _image(pixels: Pixels) -> Image.Image:
    return Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0])


def jpegs(pictures: Sequence[Picture]) -> list[bytes]:
    """All of them as JPEGs."""
    return [small if isinstance(small, bytes) else _jpeg(small) for small in pictures]


def by_class(
    pictures: Sequence[Picture], numbers: npt.NDArray[np.int64], way: int
) -> list[list[Picture]]:
    """The first pictures of each class."""
    return [[pictures[i] for i in np.flatnonzero(numbers == k)[:THUMBNAILS]] for k in range(way)]


def packed(thumbnails: Sequence[Sequence[bytes]]) -> dict[str, Tensor]:
    """The JPEGs of each class as tensors."""
    flat = [jpeg for some in thumbnails for jpeg in some]
    return {
        "support.thumbnails": torch.frombuffer(bytearray(b"".join(flat)), dtype=torch.uint8),
        "support.thumbnail_sizes": torch.tensor([len(jpeg) for jpeg in flat]),
        "support.thumbnail_counts": torch.tensor([len(some) for some in thumbnails]),
    }


def unpacked(tensors: dict[str, Tensor], way: int, path: Path) -> list[list[bytes]]:
    """What `packed` gave: the JPEGs of each class."""
    names = ("thumbnails", "thumbnail_sizes", "thumbnail_counts")
    content, sizes, counts = (tensors.get(f"support.{name}", torch.zeros(0)) for name in names)
    ends = np.cumsum(sizes.numpy())
    ok = (
        (content.dtype, sizes.dtype, counts.dtype) == (torch.uint8, torch.int64, torch.int64)
        and content.ndim == sizes.ndim == counts.ndim == 1
        and bool((sizes >= 0).all() and (counts >= 0).all())
        and [len(counts), sum(counts.tolist()), sum(sizes.tolist())]
        == [way, len(sizes), len(content)]
    )
    if not ok:
        raise UserError(f"{path} has thumbnails that do not fit its classes: make it again")
    data = content.numpy().tobytes()
    jpegs = iter(
        data[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)
    )
    return [list(islice(jpegs, count)) for count in counts.tolist()]
