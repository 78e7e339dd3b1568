"""HEIC, the format of iPhones' photos: read by the extra `heic`, or a sentence that says so."""

import io
from functools import cache
from pathlib import Path

from tadam.errors import UserError

#: Endings of HEIC files.
HEIC_ENDINGS = frozenset({".heic", ".heif"})
#: What the extra calls the format.
HEIC_FORMAT = "HEIF"
#: How such a file begins, from its fifth byte: a box of this type, then what is in it.
_BOX, _BRANDS = b"ftyp", (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")


def is_heic(source: Path | io.BytesIO) -> bool:
    """Whether a file begins as HEIC does, whatever its name."""
    if isinstance(source, Path):
        with open(source, "rb") as file:
            start = file.read(12)
    else:
        start = source.getvalue()[:12]
    return start[4:8] == _BOX and start[8:12] in _BRANDS


def require_heic(name: str) -> None:
    """Makes Pillow read HEIC; without the extra, a sentence about the image `name`."""
    if not _is_registered():
        raise UserError(
            f"{name} is a HEIC photo: run pip install 'tadam-fewshot[heic]' to read it, or save it "
            "as JPEG"
        )


@cache
def _is_registered() -> bool:
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return False
    register_heif_opener(thumbnails=False)
    return True
