"""One image file of any common kind -> a square RGB uint8 array, or one sentence on why not."""

import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from tadam.errors import UserError

#: What a folder is searched for.
EXTENSIONS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"})
#: Refused before decoding: a file of a few kilobytes may unfold to gigabytes.
MAX_PIXELS = 100_000_000
MAX_BYTES = 512 * 2**20
# Pillow warns of what is checked here. Not catch_warnings around each image: it is not safe in
# threads, and would leave the whole program without warnings.
warnings.filterwarnings("ignore", module=r"PIL\.")
_SIXTEEN_BIT_MODES = frozenset({"I", "I;16", "I;16L", "I;16B", "I;16N"})


def decode(path: Path, size: int) -> npt.NDArray[np.uint8]:
    """Reads an image upright, on white if transparent, the centre square scaled to `size`.

    Returns:
        (size, size, 3) uint8. Of an animation, the first frame.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{path} is larger than {MAX_BYTES // 2**20} MB: not an image we read")
        with Image.open(path) as image:
            if image.width * image.height > MAX_PIXELS:
                raise Image.DecompressionBombError
            image.draft("RGB", (2 * size, 2 * size))  # lets a JPEG decode at a lower scale
            return _square(_rgb(ImageOps.exif_transpose(image)), size)
    except UserError:
        raise
    except UnidentifiedImageError:
        raise UserError(f"{path} is not an image that can be read: remove or replace it") from None
    except Image.DecompressionBombError:  # ours, or Pillow's for still larger ones
        raise UserError(
            f"{path} has more than {MAX_PIXELS:,} pixels: scale it down first"
        ) from None
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        # Pillow raises all of these for damaged files; the system's own come with a number
        if isinstance(error, OSError) and error.errno is not None:
            raise UserError(f"{path} cannot be opened: {error.strerror}") from None
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{path} is damaged ({reason}): remove or replace it") from None


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode in _SIXTEEN_BIT_MODES or image.mode == "F":
        pixels = np.asarray(image, dtype=np.float64)
        top = 65535.0 if image.mode != "F" else max(float(pixels.max()), 1.0)
        grey = np.clip(np.rint(pixels / top * 255), 0, 255).astype(np.uint8)
        return Image.fromarray(grey).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("RGB")


def _square(image: Image.Image, size: int) -> npt.NDArray[np.uint8]:
    resized = ImageOps.fit(image, (size, size), Image.Resampling.BICUBIC)
    return np.asarray(resized, dtype=np.uint8)
