"""Decodes common image formats to RGB uint8 pixels, square or whole, or says why it cannot."""

import contextlib
import io
import math
import os
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from tadam.data.decode_memory import (
    LARGE_PIXELS,
    MAX_BYTES,
    MAX_PIXELS,
    check_cost,
    check_pixels,
    coefficient_cost,
    decoding_cost,
    opening_cost,
    taken,
    within,
)
from tadam.data.failures import in_a_sentence
from tadam.data.heic import HEIC_ENDINGS, HEIC_FORMAT, is_heic, require_heic
from tadam.data.quiet_tiff import silence_libtiff
from tadam.errors import UserError

Pixels = npt.NDArray[np.uint8]

#: Part of every cache key; goes up when a change to decoding changes pixels.
DECODER_VERSION = 3
#: File extensions to look for in a folder.
EXTENSIONS = HEIC_ENDINGS | {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"}
#: Formats we read, MPO as JPEG, whatever the name. Pillow knows more, and runs programs for some.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
# Pillow warns about things we check ourselves; catch_warnings around each image is not thread-safe.
warnings.filterwarnings("ignore", module=r"PIL\.")
silence_libtiff()
#: Pixels whose colours are converted at a time, to keep temporary copies small.
_BAND_PIXELS = 2**20
#: Bytes that Pillow decodes at a stretch; between two, a thread waits for Python's lock.
_STRETCH = 2**21
#: Images read at a time; all are decoded before the next are read.
_BATCH = 256
_SIXTEEN_BIT_MODES = frozenset({"I", "I;16", "I;16L", "I;16B", "I;16N"})
#: EXIF orientation -> the transpose that makes the image upright.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def decode(path: Path, size: int) -> Pixels:
    """Reads an image upright, on white if transparent, the centre square scaled to `size`.

    Returns:
        (size, size, 3) uint8; the first frame of an animation.
    """
    return _decoded(path, str(path), size, partial(_square, size=size))


def decode_upright(path: Path, size: int, name: str | None = None) -> Pixels:
    """Reads a whole image upright, on white if transparent.

    Args:
        path: The image file.
        size: Size the caller will scale to. A large JPEG is decoded at reduced scale, but at least
            twice this size.
        name: What to call it in errors; its path unless given.

    Returns:
        (H, W, 3) uint8; the first frame of an animation.
    """
    return _decoded(path, name or str(path), size, _whole)


def image_facts(path: Path, name: str) -> tuple[str, int, int]:
    """Format, width and height of an image file once it is upright, from its header alone."""
    with (
        _one_sentence(name),
        taken(opening_cost(_check_file(path))),
        _opened(path, name) as image,
    ):
        check_pixels(image, name)
        turned = image.getexif().get(ExifTags.Base.Orientation, 1) in (5, 6, 7, 8)
        width, height = image.size[::-1] if turned else image.size
        return str(image.format), width, height


def upright(image: Image.Image, name: str) -> Pixels:
    """Like `decode_upright`, for an image already open in Pillow, which is left unchanged."""
    with _one_sentence(name):
        return _whole(image)


def decode_bytes(content: bytes, name: str, size: int) -> Pixels:
    """Like `decode`, for an image already in memory; `name` appears in errors."""
    return _decoded(io.BytesIO(content), name, size, partial(_square, size=size))


def decode_upright_bytes(content: bytes, name: str, size: int) -> Pixels:
    """Like `decode_upright`, for an image already in memory; `name` appears in errors."""
    return _decoded(io.BytesIO(content), name, size, _whole)


def decode_into(
    out: Pixels,
    jobs: Iterable[tuple[int, Callable[[], Pixels]]],
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Fills the rows of an array in parallel.

    Args:
        out: (N, H, W, C), to be filled.
        jobs: As for `decode_all`.
        progress: Called with (rows done, N).
    """
    for done, (row, pixels) in enumerate(decode_all(jobs), start=1):
        out[row] = pixels
        if progress:
            progress(done, len(out))


def decode_all(jobs: Iterable[tuple[int, Callable[[], Pixels]]]) -> Iterator[tuple[int, Pixels]]:
    """Yields row numbers and pixels, decoded in parallel.

    Args:
        jobs: Row number and a function that returns its pixels. Consumed in order, a batch at a
            time, so that bytes read from an archive never pile up.
    """
    remaining = iter(jobs)
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        while batch := list(islice(remaining, _BATCH)):
            made = pool.map(lambda job: job[1](), batch)
            yield from zip((row for row, _ in batch), made, strict=True)


def _check_file(path: Path) -> int:
    """Size of a regular file of sensible size; anything else is refused before it is opened."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise UserError(f"{path} is a pipe or a device: give a regular image file")
    if found.st_size > MAX_BYTES:
        raise UserError(f"{path} is larger than {MAX_BYTES // 2**20} MB: use a smaller image")
    return found.st_size


def _decoded(
    source: Path | io.BytesIO, name: str, size: int, finish: Callable[[Image.Image], Pixels]
) -> Pixels:
    with _one_sentence(name):
        length = _check_file(source) if isinstance(source, Path) else source.getbuffer().nbytes
        with taken(opening_cost(length)):
            image = _opened(source, name)
            try:
                cost = _cost(image, name, size, length)
            except BaseException:
                image.close()
                raise
        return within(cost, partial(_finish_and_free, finish, image))


def _cost(image: Image.Image, name: str, size: int, length: int) -> int:
    """Memory that decoding will take; lets a JPEG decode at reduced scale."""
    check_pixels(image, name)
    kind, coefficients = image.format, coefficient_cost(image)
    image.draft("RGB", (2 * size, 2 * size))
    cost = decoding_cost(image, kind, length) + coefficients
    check_cost(cost, name)
    return cost


def _opened(source: Path | io.BytesIO, name: str) -> Image.Image:
    try:
        image = Image.open(source, formats=_FORMATS)
        image.decodermaxblock = _STRETCH
        return image
    except UnidentifiedImageError:
        if not is_heic(source):
            raise
        require_heic(name)
        return Image.open(source, formats=(HEIC_FORMAT,))


def _finish_and_free(finish: Callable[[Image.Image], Pixels], image: Image.Image) -> Pixels:
    with contextlib.closing(image):  # frees its memory before the next large image
        return finish(image)


@contextlib.contextmanager
def _one_sentence(name: str) -> Iterator[None]:
    """Turns whatever Pillow raises in the block into one sentence about image `name`."""
    with in_a_sentence(name, "remove or replace it", show_reason=True):
        try:
            yield
        except UnidentifiedImageError:
            raise UserError(
                f"{name} is not an image that can be read (JPEG, PNG, WebP, GIF, BMP or TIFF): "
                "remove or replace it"
            ) from None
        except Image.DecompressionBombError:  # Pillow's own, for far larger images than we allow
            raise UserError(
                f"{name} has more than {MAX_PIXELS:,} pixels: scale it down first"
            ) from None


def _square(image: Image.Image, size: int) -> Pixels:
    image.load()  # may rotate it
    enough = max(1, min(image.size) // (2 * size))
    small = _upright(image, min(_reduction(image), enough))
    resized = ImageOps.fit(small, (size, size), Image.Resampling.BICUBIC)
    return np.asarray(resized.convert("RGB"), dtype=np.uint8)


def _whole(image: Image.Image) -> Pixels:
    image.load()
    return np.asarray(_in_mode(_upright(image, _reduction(image)), "RGB"), dtype=np.uint8)


def scaled(pixels: Pixels, size: int) -> Pixels:
    """The centre square of (H, W, 3) pixels, scaled to (size, size, 3)."""
    return _square(Image.fromarray(pixels), size)


def _reduction(image: Image.Image) -> int:
    """Block size, in pixels across and down, that a large image is averaged over."""
    return math.ceil(math.sqrt(image.width * image.height / LARGE_PIXELS))


def _upright(image: Image.Image, reduction: int) -> Image.Image:
    """Turns the image as EXIF asks; RGB, or L if it is grey, which is cheaper to scale."""
    opaque = _opaque(image, reduction)
    turn = _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    return opaque if turn is None else opaque.transpose(turn)


def _opaque(image: Image.Image, reduction: int) -> Image.Image:
    """Puts the image on white and reduces it, band by band to avoid a large copy."""
    is_float = image.mode == "F"
    white = max(1.0, max(_finite(band).max() for band in _bands(image))) if is_float else 65535.0
    parts = [_reduced(_opaque_band(b, white), reduction) for b in _bands(image, reduction)]
    if len(parts) == 1:
        return parts[0]
    made = Image.new(parts[0].mode, (parts[0].width, sum(part.height for part in parts)))
    top = 0
    for part in parts:
        made.paste(part, (0, top))
        top += part.height
    return made


def _bands(image: Image.Image, reduction: int = 1) -> Iterator[Image.Image]:
    """Horizontal bands of the image, each a multiple of `reduction` rows high."""
    rows = max(1, _BAND_PIXELS // max(1, image.width * reduction)) * reduction
    if rows >= image.height:
        yield image
        return
    for top in range(0, image.height, rows):
        yield image.crop((0, top, image.width, min(top + rows, image.height)))


def _opaque_band(image: Image.Image, white: float) -> Image.Image:
    if image.mode == "F":
        grey = np.rint(_finite(image) / white * 255)
        return Image.fromarray(np.clip(grey, 0, 255).astype(np.uint8))
    if image.mode in _SIXTEEN_BIT_MODES:
        values = np.clip(np.asarray(image, dtype=np.int32), 0, 65535)
        return Image.fromarray(((values + 128) // 257).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        on_white = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(on_white, rgba).convert("RGB")
    return _in_mode(image, "L" if image.mode in ("1", "L") else "RGB")


def _reduced(image: Image.Image, reduction: int) -> Image.Image:
    """The image itself if there is nothing to reduce: Pillow would copy it."""
    return image if reduction == 1 else image.reduce(reduction)


def _in_mode(image: Image.Image, mode: str) -> Image.Image:
    """The image itself if it is in that mode."""
    return image if image.mode == mode else image.convert(mode)


def _finite(image: Image.Image) -> npt.NDArray[np.float64]:
    return np.nan_to_num(np.asarray(image, dtype=np.float64), posinf=0.0, neginf=0.0)
