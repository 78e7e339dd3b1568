"""An image of any common kind -> a square RGB uint8 array, or one sentence on why not."""

import contextlib
import io
import os
import warnings
from collections.abc import Callable, Iterable
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
#: Images that are decoded before more are read.
_BATCH = 256
_SIXTEEN_BIT_MODES = frozenset({"I", "I;16", "I;16L", "I;16B", "I;16N"})


def decode(path: Path, size: int) -> Pixels:
    """Reads an image upright, on white if transparent, the centre square scaled to `size`.

    Returns:
        (size, size, 3) uint8. Of an animation, the first frame.
    """
    with contextlib.suppress(OSError):  # what cannot be opened is told of below
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{path} is larger than {MAX_BYTES // 2**20} MB: not an image we read")
    return _decode(path, str(path), size)


def decode_bytes(content: bytes, name: str, size: int) -> Pixels:
    """Reads an image that is in memory already, as `decode` does; `name` is for errors."""
    return _decode(io.BytesIO(content), name, size)


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


def _decode(source: Path | io.BytesIO, name: str, size: int) -> Pixels:
    try:
        with Image.open(source) as image:
            if image.width * image.height > MAX_PIXELS:
                raise Image.DecompressionBombError
            image.draft("RGB", (2 * size, 2 * size))  # lets a JPEG decode at a lower scale
            return _square(_opaque(ImageOps.exif_transpose(image)), size)
    except UnidentifiedImageError:
        raise UserError(f"{name} is not an image that can be read: remove or replace it") from None
    except Image.DecompressionBombError:  # ours, or Pillow's for still larger ones
        raise UserError(
            f"{name} has more than {MAX_PIXELS:,} pixels: scale it down first"
        ) from None
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        # Pillow raises all of these for damaged files; the system's own come with a number
        if isinstance(error, OSError) and error.errno is not None:
            raise UserError(f"{name} cannot be opened: {error.strerror}") from None
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{name} is damaged ({reason}): remove or replace it") from None


def _opaque(image: Image.Image) -> Image.Image:
    """As RGB, or as grey what is only grey: scaling one channel is cheaper than three."""
    if image.mode in _SIXTEEN_BIT_MODES or image.mode == "F":
        pixels = np.asarray(image, dtype=np.float64)
        top = 65535.0 if image.mode != "F" else max(float(pixels.max()), 1.0)
        grey = np.clip(np.rint(pixels / top * 255), 0, 255).astype(np.uint8)
        return Image.fromarray(grey)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _square(image: Image.Image, size: int) -> Pixels:
    resized = ImageOps.fit(image, (size, size), Image.Resampling.BICUBIC)
    return np.asarray(resized.convert("RGB"), dtype=np.uint8)
