"""An image of any common kind -> RGB uint8 pixels, square or whole, or a sentence on why not."""

import contextlib
import io
import math
import os
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from tadam.errors import UserError

Pixels = npt.NDArray[np.uint8]

#: Part of every cache's key; bumped when decoding changes pixels.
DECODER_VERSION = 1
#: What a folder is searched for.
EXTENSIONS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"})
#: Refused before decoding: a file of a few kilobytes may unfold to gigabytes.
MAX_PIXELS = 100_000_000
MAX_BYTES = 512 * 2**20
# Pillow warns of what is checked here. Not catch_warnings around each image: it is not safe in
# threads, and would leave the whole program without warnings.
warnings.filterwarnings("ignore", module=r"PIL\.")
#: A whole image beyond this is made smaller by averaging whole pixels, which bounds the memory.
MAX_WHOLE_PIXELS = 16_000_000
#: Images that are decoded before more are read.
_BATCH = 256
_SIXTEEN_BIT_MODES = frozenset({"I", "I;16", "I;16L", "I;16B", "I;16N"})


def decode(path: Path, size: int) -> Pixels:
    """Reads an image upright, on white if transparent, the centre square scaled to `size`.

    Returns:
        (size, size, 3) uint8. Of an animation, the first frame.
    """
    _check_file(path)
    return _decoded(path, str(path), size, lambda image: _square(image, size))


def decode_upright(path: Path, size: int) -> Pixels:
    """Reads a whole image upright, on white if transparent.

    Args:
        path: The image's file.
        size: What it will be scaled to: a large JPEG is decoded at a lower scale, at least twice
            this one.

    Returns:
        (H, W, 3) uint8. Of an animation, the first frame.
    """
    _check_file(path)
    return _decoded(path, str(path), size, _whole)


def upright(image: Image.Image, name: str) -> Pixels:
    """An image that Pillow has opened already, as `decode_upright` gives it; left as it is."""
    with _one_sentence(name):
        return _whole(_opaque(ImageOps.exif_transpose(image)))


def decode_bytes(content: bytes, name: str, size: int) -> Pixels:
    """Reads an image that is in memory already, as `decode` does; `name` is for errors."""
    return _decoded(io.BytesIO(content), name, size, lambda image: _square(image, size))


def decode_into(
    out: Pixels,
    jobs: Iterable[tuple[int, Callable[[], Pixels]]],
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Fills the rows of an array in parallel.

    Args:
        out: (N, H, W, C), gets every pixel.
        jobs: Row, and what makes its pixels; asked for in order, a batch at a time, so that what is
            read from an archive never piles up.
        progress: Called with (rows done, N).
    """
    remaining, done = iter(jobs), 0
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        while batch := list(islice(remaining, _BATCH)):
            made = pool.map(lambda job: job[1](), batch)
            for (row, _), pixels in zip(batch, made, strict=True):
                out[row] = pixels
                done += 1
                if progress:
                    progress(done, len(out))


def _check_file(path: Path) -> None:
    with contextlib.suppress(OSError):  # what cannot be opened is told of when it is opened
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            raise UserError(f"{path} is not a file: a pipe or a device holds no image")
        if found.st_size > MAX_BYTES:
            raise UserError(f"{path} is larger than {MAX_BYTES // 2**20} MB: not an image we read")


def _decoded(
    source: Path | io.BytesIO, name: str, size: int, finish: Callable[[Image.Image], Pixels]
) -> Pixels:
    with _one_sentence(name), Image.open(source) as image:
        if image.width * image.height > MAX_PIXELS:
            raise Image.DecompressionBombError
        image.draft("RGB", (2 * size, 2 * size))  # lets a JPEG decode at a lower scale
        return finish(_opaque(ImageOps.exif_transpose(image)))


@contextlib.contextmanager
def _one_sentence(name: str) -> Iterator[None]:
    """Whatever Pillow raises in the block becomes a sentence about the image `name`."""
    try:
        yield
    except UnidentifiedImageError:
        raise UserError(f"{name} is not an image that can be read: remove or replace it") from None
    except Image.DecompressionBombError:  # ours, or Pillow's for still larger ones
        raise UserError(
            f"{name} has more than {MAX_PIXELS:,} pixels: scale it down first"
        ) from None
    except MemoryError:
        raise
    except Exception as error:
        # Its decoders raise nearly anything for damaged files; the system's own have a number.
        if isinstance(error, OSError) and error.errno is not None:
            raise UserError(f"{name} cannot be opened: {error.strerror}") from None
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{name} is damaged ({reason}): remove or replace it") from None


def _opaque(image: Image.Image) -> Image.Image:
    """As RGB, or as grey what is only grey: scaling one channel is cheaper than three."""
    if image.mode in _SIXTEEN_BIT_MODES or image.mode == "F":
        pixels = np.nan_to_num(np.asarray(image, dtype=np.float64), posinf=0.0, neginf=0.0)
        top = 65535.0 if image.mode != "F" else max(float(pixels.max()), 1.0)
        grey = np.clip(np.rint(pixels / top * 255), 0, 255).astype(np.uint8)
        return Image.fromarray(grey)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def scaled(pixels: Pixels, size: int) -> Pixels:
    """(H, W, 3) pixels, their middle square at another size."""
    return _square(Image.fromarray(pixels), size)


def _square(image: Image.Image, size: int) -> Pixels:
    resized = ImageOps.fit(image, (size, size), Image.Resampling.BICUBIC)
    return np.asarray(resized.convert("RGB"), dtype=np.uint8)


def _whole(image: Image.Image) -> Pixels:
    if image.width * image.height > MAX_WHOLE_PIXELS:
        image = image.reduce(math.ceil(math.sqrt(image.width * image.height / MAX_WHOLE_PIXELS)))
    return np.asarray(image.convert("RGB"), dtype=np.uint8)
