"""A corpus of files that a folder of photos may hold: broken, hostile or merely odd."""

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

#: Whether a file can be used after all, or must end in a sentence; None where either will do.
Expectation = bool | None


def _noise(side: int = 48) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8))


def _truncated(path: Path) -> None:
    _noise().save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _chunk(kind: bytes, data: bytes, checksum: int | None = None) -> bytes:
    checksum = zlib.crc32(kind + data) if checksum is None else checksum
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)


def _png(
    path: Path, width: int, height: int, data: bytes = b"\0" * 9, crc: int | None = None
) -> None:
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), crc)
    body = header + _chunk(b"IDAT", zlib.compress(data)) + _chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)


def _bad_crc(path: Path) -> None:
    _noise().save(path)
    content = bytearray(path.read_bytes())
    content[29] ^= 0xFF  # in the checksum of the header
    path.write_bytes(content)


def _corrupt_exif(path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    _noise().save(path, exif=exif)
    content = path.read_bytes()
    place = content.index(b"Exif\0\0") + 6
    path.write_bytes(content[:place] + b"\xff" * 20 + content[place + 20 :])


def _zero_size_gif(path: Path) -> None:
    path.write_bytes(b"GIF89a" + struct.pack("<HHBBB", 0, 0, 0, 0, 0) + b";")


def _zero_size_bmp(path: Path) -> None:
    header = struct.pack("<IiiHHIIiiII", 40, 0, 0, 1, 24, 0, 0, 0, 0, 0, 0)
    path.write_bytes(b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + header)


def _nan_tiff(path: Path) -> None:
    Image.fromarray(np.full((20, 20), np.nan, np.float32)).save(path)


def _half_nan_tiff(path: Path) -> None:
    pixels = np.full((20, 20), 0.5, np.float32)
    pixels[:10] = np.nan
    pixels[10, :3] = [np.inf, -np.inf, 3e38]
    Image.fromarray(pixels).save(path)


def _frames(path: Path) -> None:
    _noise().save(path, save_all=True, append_images=[Image.new("RGB", (48, 48))] * 3)


def _palette(path: Path) -> None:
    image = _noise().quantize(16)
    image.save(path, transparency=3)


def _sixteen_bit(path: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 65536, (20, 20), np.uint16)).save(path)


def _unreadable(path: Path) -> None:
    _noise().save(path)
    path.chmod(0)


def _write(content: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(content)

    return write


def _save(mode: str, size: tuple[int, int], **options: Any) -> Callable[[Path], None]:
    return lambda path: Image.new(mode, size, 1).save(path, **options)


#: Name of the file -> how it is made, and what is expected of it.
CORPUS: dict[str, tuple[Callable[[Path], object], Expectation]] = {
    "empty.jpg": (_write(b""), False),
    "empty.png": (_write(b""), False),
    "text.jpg": (_write(b"Dear diary"), False),
    "page.png": (_write(b"<!doctype html><html><body>404</body></html>"), False),
    "vector.png": (_write(b"<svg xmlns='http://www.w3.org/2000/svg'/>"), False),
    "postscript.png": (_save("RGB", (30, 20), format="EPS"), False),
    "pickle.jpg": (_write(b"\x80\x04\x95\x0b\0\0\0\0\0\0\0\x8c\x07gotcha!\x94."), False),
    "archive.jpg": (_write(b"PK\x03\x04" + b"\0" * 60), False),
    "zeros.bmp": (_write(b"\0" * 5000), False),
    "magic-only.jpg": (_write(b"\xff\xd8\xff"), False),
    "magic-only.png": (_write(b"\x89PNG\r\n\x1a\n"), False),
    "magic-only.webp": (_write(b"RIFF\xff\xff\xff\xffWEBPVP8 "), False),
    "magic-only.tiff": (_write(b"II*\0\x08\0\0\0"), False),
    "looping.tiff": (_write(b"II*\0\x08\0\0\0\0\0\x08\0\0\0"), False),
    "truncated.jpg": (_truncated, False),
    "truncated.png": (_truncated, False),
    "truncated.gif": (_truncated, False),
    "truncated.webp": (_truncated, False),
    "truncated.bmp": (_truncated, False),
    "truncated.tiff": (_truncated, False),
    "bomb.png": (lambda path: _png(path, 60_000, 60_000), False),
    "huge.png": (lambda path: _png(path, 2**31 - 1, 2**31 - 1), False),
    "long.png": (lambda path: _png(path, 2**27, 1), False),
    "zero-size.png": (lambda path: _png(path, 0, 0), False),
    "zero-size.gif": (_zero_size_gif, False),
    "zero-size.bmp": (_zero_size_bmp, False),
    "negative.png": (lambda path: _png(path, 2**32 - 1, 4), False),
    "bad-crc.png": (_bad_crc, False),
    "folder.jpg": (lambda path: path.mkdir(), False),
    "nowhere.jpg": (lambda path: path.symlink_to(path.parent / "no such file"), False),
    "circle.jpg": (lambda path: path.symlink_to(path), False),
    "pipe.jpg": (os.mkfifo, False),
    "device.jpg": (lambda path: path.symlink_to("/dev/zero"), False),
    "no-permission.jpg": (_unreadable, None),  # root may read it
    "corrupt-exif.jpg": (_corrupt_exif, None),
    "nan.tiff": (_nan_tiff, True),
    "half-nan.tiff": (_half_nan_tiff, True),
    "one-pixel.png": (_save("RGB", (1, 1)), True),
    "one-row.png": (_save("RGB", (3000, 1)), True),
    "one-column.jpg": (_save("RGB", (1, 3000)), True),
    "cmyk.jpg": (_save("CMYK", (30, 20)), True),
    "grey-alpha.png": (_save("LA", (30, 20)), True),
    "one-bit.png": (_save("1", (30, 20)), True),
    "palette.png": (_palette, True),
    "sixteen-bit.png": (_sixteen_bit, True),
    "sixteen-bit.tiff": (_sixteen_bit, True),
    "lab.tiff": (_save("LAB", (30, 20)), True),
    "frames.gif": (_frames, True),
    "frames.webp": (_frames, True),
    "frames.tiff": (_frames, True),
    "really-a-png.jpg": (_save("RGB", (30, 20), format="PNG"), True),
    "UPPER.JPG": (_save("RGB", (30, 20)), True),
}
