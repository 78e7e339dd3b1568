"""Decoding: every common kind of image comes out square, upright and in the right colours."""

import importlib
import os
import struct
import subprocess
import sys
import threading
import time
import warnings
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageFile

from tadam.data import decode as module
from tadam.data import decode_memory
from tadam.data.decode import decode, decode_upright, upright
from tadam.errors import UserError

# pytest undoes the filter that decode sets when it is imported; a test below shows it at work.
pytestmark = [
    pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning"),
    pytest.mark.filterwarnings("ignore:Tag data larger"),
    pytest.mark.filterwarnings("ignore:Corrupt EXIF"),
    pytest.mark.filterwarnings("ignore:Truncated File Read"),
    pytest.mark.filterwarnings("ignore:Possibly corrupt EXIF"),
    pytest.mark.filterwarnings("ignore:Image appears to be a malformed MPO"),
]

SIZE = 16
QUADRANTS = {
    "red": (220, 30, 40),
    "green": (30, 200, 60),
    "blue": (40, 50, 210),
    "grey": (128,) * 3,
}


def quadrants(size: int = 64) -> np.ndarray:
    """Four colours that reveal any rotation or mirroring: red green / blue grey."""
    red, green, blue, grey = (np.array(c, np.uint8) for c in QUADRANTS.values())
    half = size // 2
    image = np.empty((size, size, 3), np.uint8)
    image[:half, :half], image[:half, half:] = red, green
    image[half:, :half], image[half:, half:] = blue, grey
    return image


def corners(pixels: np.ndarray) -> np.ndarray:
    """The colour at the centre of each quadrant, (4, 3)."""
    assert pixels.shape == (SIZE, SIZE, 3)
    assert pixels.dtype == np.uint8
    near, far = SIZE // 4, 3 * SIZE // 4
    return pixels[[near, near, far, far], [near, far, near, far]].astype(int)


def assert_colours(
    path: Path, expected: list[Any] | npt.NDArray[np.int64], tolerance: int = 0
) -> None:
    got = corners(decode(path, SIZE))
    assert np.abs(got - np.array(expected)).max() <= tolerance, got


def test_every_common_format_gives_its_colours(tmp_path: Path) -> None:
    formats: list[tuple[str, dict[str, Any], int]] = [
        ("a.jpg", {"quality": 95}, 4),
        ("a.JPEG", {"quality": 95, "progressive": True}, 4),
        ("a.png", {}, 0),
        ("a.webp", {"lossless": True}, 0),
        ("a.bmp", {}, 0),
        ("a.tif", {}, 0),
        ("a.tiff", {"compression": "tiff_lzw"}, 0),
        ("a.gif", {}, 0),
    ]
    for name, options, tolerance in formats:
        path = tmp_path / name
        Image.fromarray(quadrants()).save(path, **options)
        assert_colours(path, list(QUADRANTS.values()), tolerance)


def test_a_jpeg_with_two_pictures_gives_the_first_one(tmp_path: Path) -> None:
    second = Image.new("RGB", (64, 64), "black")
    Image.fromarray(quadrants()).save(
        tmp_path / "a.jpg", format="MPO", save_all=True, append_images=[second], quality=95
    )
    with Image.open(tmp_path / "a.jpg") as written:
        assert written.format == "MPO"
    assert_colours(tmp_path / "a.jpg", list(QUADRANTS.values()), 4)


def test_the_first_frame_of_an_animation_is_used(tmp_path: Path) -> None:
    for name in ["a.gif", "a.webp", "a.png", "a.tiff"]:
        frames = [Image.fromarray(quadrants()), Image.new("RGB", (64, 64), "black")]
        options: dict[str, Any] = {"lossless": True} if name == "a.webp" else {}
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:], **options)
        with Image.open(tmp_path / name) as written:
            assert getattr(written, "n_frames") == 2  # noqa: B009
        assert_colours(tmp_path / name, list(QUADRANTS.values()))


#: What a viewer has to do to show the stored pixels upright, from the EXIF standard.
UPRIGHT: dict[int, Callable[..., Any]] = {
    1: lambda a: a,
    2: np.fliplr,
    3: lambda a: np.rot90(a, 2),
    4: np.flipud,
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: np.rot90(a, 2).transpose(1, 0, 2),
    8: np.rot90,
}


def test_an_image_that_exif_says_is_turned_comes_out_upright(tmp_path: Path) -> None:
    for orientation, name in [(n, "a.jpg") for n in UPRIGHT] + [(6, "a.png"), (7, "a.png")]:
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.fromarray(quadrants()).save(tmp_path / name, exif=exif, quality=95)
        expected = np.ascontiguousarray(UPRIGHT[orientation](quadrants(SIZE)))
        assert_colours(tmp_path / name, corners(expected), 4)


@pytest.mark.parametrize("name", ["a.png", "a.tiff"])
def test_sixteen_bits_are_scaled_to_eight_by_257(tmp_path: Path, name: str) -> None:
    values = np.array([[0, 257 * 77], [257 * 200, 65535]], np.uint16)
    Image.fromarray(np.kron(values, np.ones((32, 32), np.uint16))).save(tmp_path / name)
    assert_colours(tmp_path / name, [[v] * 3 for v in (0, 77, 200, 255)])


def test_a_floating_point_image_keeps_its_ratios(tmp_path: Path) -> None:
    values = np.kron(np.array([[0, 1], [2, 4]], np.float32), np.ones((32, 32), np.float32))
    Image.fromarray(values).save(tmp_path / "a.tiff")
    assert_colours(tmp_path / "a.tiff", [[v] * 3 for v in (0, 64, 128, 255)])


def test_a_cmyk_jpeg_has_the_colours_of_its_inks(tmp_path: Path) -> None:
    inks = np.zeros((64, 64, 4), np.uint8)
    inks[:32, :32] = (255, 0, 0, 0)  # cyan
    inks[:32, 32:] = (0, 255, 0, 0)  # magenta
    inks[32:, :32] = (0, 0, 255, 0)  # yellow
    inks[32:, 32:] = (0, 0, 0, 255)  # black
    Image.fromarray(inks, mode="CMYK").save(tmp_path / "a.jpg", quality=98)
    expected = [(0, 255, 255), (255, 0, 255), (255, 255, 0), (0, 0, 0)]
    assert_colours(tmp_path / "a.jpg", expected, 8)


def test_a_palette_gives_its_colours(tmp_path: Path) -> None:
    Image.fromarray(quadrants()).quantize(4).save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as written:
        assert written.mode == "P"
    assert_colours(tmp_path / "a.png", list(QUADRANTS.values()), 1)


@pytest.mark.parametrize("transparency", ["index", "bytes"])
def test_a_transparent_entry_of_a_palette_is_white(tmp_path: Path, transparency: str) -> None:
    indices = np.kron(np.array([[0, 1], [2, 3]], np.uint8), np.ones((32, 32), np.uint8))
    image = Image.fromarray(indices, mode="P")
    image.putpalette([c for colour in QUADRANTS.values() for c in colour])
    value = 1 if transparency == "index" else bytes([255, 0, 255, 255])
    image.save(tmp_path / "a.png", transparency=value)
    red, _, blue, grey = QUADRANTS.values()
    assert_colours(tmp_path / "a.png", [red, (255, 255, 255), blue, grey])


def test_a_transparent_colour_of_an_rgb_png_is_white(tmp_path: Path) -> None:
    Image.fromarray(quadrants()).save(tmp_path / "a.png", transparency=QUADRANTS["green"])
    red, _, blue, grey = QUADRANTS.values()
    assert_colours(tmp_path / "a.png", [red, (255, 255, 255), blue, grey])


def test_rgba_is_blended_with_white(tmp_path: Path) -> None:
    alpha = np.kron(np.array([[255, 0], [51, 255]], np.uint8), np.ones((32, 32), np.uint8))
    Image.fromarray(np.dstack([quadrants(), alpha])).save(tmp_path / "a.png")
    red, _, blue, grey = QUADRANTS.values()
    faint = [round(255 * 0.8 + c * 0.2) for c in blue]
    assert_colours(tmp_path / "a.png", [red, (255, 255, 255), faint, grey], 1)


def test_grey_with_alpha_is_blended_with_white(tmp_path: Path) -> None:
    grey = np.full((64, 64), 100, np.uint8)
    alpha = np.kron(np.array([[255, 0], [51, 255]], np.uint8), np.ones((32, 32), np.uint8))
    Image.fromarray(np.dstack([grey, alpha]), mode="LA").save(tmp_path / "a.png")
    assert_colours(tmp_path / "a.png", [[v] * 3 for v in (100, 255, 224, 100)], 1)


@pytest.mark.parametrize(("name", "tolerance"), [("a.png", 0), ("a.jpg", 3)])
def test_greyscale_has_three_equal_channels(tmp_path: Path, name: str, tolerance: int) -> None:
    values = np.kron(np.array([[0, 90], [180, 255]], np.uint8), np.ones((32, 32), np.uint8))
    Image.fromarray(values).save(tmp_path / name, quality=95)
    assert_colours(tmp_path / name, [[v] * 3 for v in (0, 90, 180, 255)], tolerance)


def test_one_bit_is_black_and_white(tmp_path: Path) -> None:
    values = np.kron(np.array([[0, 255], [255, 0]], np.uint8), np.ones((32, 32), np.uint8))
    Image.fromarray(values).convert("1").save(tmp_path / "a.png")
    assert_colours(tmp_path / "a.png", [[v] * 3 for v in (0, 255, 255, 0)])


@pytest.mark.parametrize("shape", [(64, 200), (200, 64)])
def test_the_centre_square_of_an_oblong_image_is_kept(
    tmp_path: Path, shape: tuple[int, int]
) -> None:
    image = np.full((*shape, 3), 255, np.uint8)
    top, left = (shape[0] - 64) // 2, (shape[1] - 64) // 2
    image[top : top + 64, left : left + 64] = quadrants()
    Image.fromarray(image).save(tmp_path / "a.png")
    assert_colours(tmp_path / "a.png", list(QUADRANTS.values()))


def test_an_image_of_one_pixel_is_enlarged(tmp_path: Path) -> None:
    Image.new("RGB", (1, 1), (10, 20, 30)).save(tmp_path / "a.png")
    assert (decode(tmp_path / "a.png", SIZE) == (10, 20, 30)).all()


@pytest.mark.parametrize("side", [96, 600])  # 96 could shrink below the wanted size
def test_a_jpeg_decoded_at_reduced_scale_looks_like_the_full_one(tmp_path: Path, side: int) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    smooth = Image.fromarray(noise).resize((side, side), Image.Resampling.BICUBIC)
    smooth.save(tmp_path / "a.jpg", quality=95, subsampling=0)
    smooth.save(tmp_path / "a.png")
    fast, full = (decode(tmp_path / f"a.{kind}", SIZE).astype(int) for kind in ("jpg", "png"))
    assert np.abs(fast - full).mean() < 3


def test_a_whole_image_keeps_every_pixel_upright(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (30, 50, 3), dtype=np.uint8)
    for orientation in UPRIGHT:
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
        expected = UPRIGHT[orientation](pixels)
        np.testing.assert_array_equal(decode_upright(tmp_path / "a.png", SIZE), expected)
        with Image.open(tmp_path / "a.png") as image:
            np.testing.assert_array_equal(upright(image, "image 0"), expected)


def test_a_whole_jpeg_is_decoded_at_a_lower_scale_but_at_least_at_twice_the_size(
    tmp_path: Path,
) -> None:
    Image.fromarray(quadrants(600)).resize((800, 600)).save(tmp_path / "a.jpg", quality=95)
    height, width, _ = decode_upright(tmp_path / "a.jpg", SIZE).shape
    assert 2 * SIZE <= height < 600
    assert (height, width) == (75, 100)
    assert decode_upright(tmp_path / "a.jpg", 299).shape == (600, 800, 3)


def test_a_very_large_whole_image_is_reduced_by_whole_pixels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGE_PIXELS", 1000)
    pixels = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    expected = pixels.reshape(20, 3, 80, 3)[:, :, :78].reshape(20, 3, 26, 3, 3).mean(axis=(1, 3))
    got = decode_upright(tmp_path / "a.png", SIZE)
    assert got.shape == (20, 27, 3)  # 80 / 3, rounded up
    assert np.abs(got[:, :26] - expected).max() <= 1


def test_a_very_large_square_is_averaged_first_but_never_below_the_wanted_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    smooth = Image.fromarray(noise).resize((96, 96), Image.Resampling.BICUBIC)
    smooth.save(tmp_path / "a.png")
    full = decode(tmp_path / "a.png", SIZE)
    monkeypatch.setattr(module, "LARGE_PIXELS", 10)
    averaged = decode(tmp_path / "a.png", SIZE)
    means = np.asarray(smooth).reshape(2 * SIZE, 3, 2 * SIZE, 3, 3).mean(axis=(1, 3)).round()
    expected = Image.fromarray(means.astype(np.uint8)).resize((SIZE, SIZE))
    assert np.abs(averaged.astype(int) - np.asarray(expected)).max() <= 1
    assert 0 < np.abs(averaged.astype(int) - full).mean() < 3


def images_of_many_kinds() -> dict[str, Image.Image]:
    dice = np.random.default_rng(0)
    grey = Image.fromarray(dice.integers(0, 256, (61, 47), dtype=np.uint8))
    colour = Image.fromarray(dice.integers(0, 256, (61, 47, 3), dtype=np.uint8))
    glass = Image.fromarray(dice.integers(0, 256, (61, 47, 4), dtype=np.uint8))
    palette = colour.quantize(16)
    palette.info["transparency"] = 3
    return {
        "L": grey,
        "1": grey.convert("1"),
        "LA": glass.convert("LA"),
        "RGB": colour,
        "RGBA": glass,
        "P": palette,
        "CMYK": colour.convert("CMYK"),
        "I;16": Image.fromarray(dice.integers(0, 65536, (61, 47), dtype=np.uint16)),
        "I": Image.fromarray(dice.integers(-9999, 99999, (61, 47), dtype=np.int32)),
        "F": Image.fromarray(np.linspace(-1, 5, 61 * 47, dtype=np.float32).reshape(61, 47)),
    }


def test_bands_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    bands = module._BAND_PIXELS
    for mode, image in images_of_many_kinds().items():
        assert image.mode == mode
        # unreduced, and averaged over 3 x 3 pixels
        for large, shape in ((10**6, (61, 47, 3)), (500, (21, 16, 3))):
            monkeypatch.setattr(module, "LARGE_PIXELS", large)
            monkeypatch.setattr(module, "_BAND_PIXELS", bands)
            whole = upright(image, "image 0")
            assert whole.shape == shape
            monkeypatch.setattr(module, "_BAND_PIXELS", 400)
            np.testing.assert_array_equal(upright(image, "image 0"), whole)


def test_each_of_the_65536_values_is_rounded_to_the_nearest_of_256() -> None:
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    expected = np.rint(values / 257)
    np.testing.assert_array_equal(upright(Image.fromarray(values), "image 0")[:, :, 1], expected)
    beyond = Image.fromarray(np.array([[-5, 257 * 99], [65536, 2**31 - 1]], np.int32))
    assert upright(beyond, "image 0")[:, :, 0].tolist() == [[0, 99], [255, 255]]


PEAK = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tadam.data.decode import decode, decode_upright

def peak():
    (line,) = [x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x]
    return int(line.split()[1]) * 1024

before = peak()
read = {"square": decode, "whole": decode_upright}[sys.argv[1]]
with ThreadPoolExecutor(4) as pool:
    for pixels in pool.map(lambda _: read(Path(sys.argv[2]), 84), range(4)):
        del pixels
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize(("mode", "way"), [("I;16", "square"), ("RGBA", "whole")])
def test_threads_share_one_budget_of_memory(tmp_path: Path, mode: str, way: str) -> None:
    Image.new(mode, (6000, 6000), 200).save(tmp_path / "a.png", compress_level=1)
    command = [sys.executable, "-c", PEAK, way, str(tmp_path / "a.png")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < decode_memory.MAX_MEMORY + 64 * 2**20


def loads_at_once(monkeypatch: pytest.MonkeyPatch, path: Path) -> int:
    """How many of four threads are decoding at the same time."""
    inside, most, load = [], [], ImageFile.ImageFile.load

    def slow_load(self: ImageFile.ImageFile) -> Any:
        inside.append(id(self))
        most.append(len(inside))
        time.sleep(0.05)
        loaded = load(self)
        inside.remove(id(self))
        return loaded

    with monkeypatch.context() as patch, ThreadPoolExecutor(4) as pool:
        patch.setattr(ImageFile.ImageFile, "load", slow_load)
        list(pool.map(lambda _: decode(path, SIZE), range(4)))
    return max(most)


@pytest.mark.parametrize(
    ("name", "options", "waits"),
    [
        ("a.png", {}, True),
        ("a.jpg", {"progressive": True}, True),
        ("a.jpg", {}, False),  # decoded at a lower scale
    ],
    ids=["png", "progressive", "baseline"],
)
def test_large_images_wait_for_each_other(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    options: dict[str, Any],
    waits: bool,
) -> None:
    Image.fromarray(quadrants(512)).save(tmp_path / name, **options)
    assert loads_at_once(monkeypatch, tmp_path / name) > 1
    room = 5 * 512**2  # for one image, or all of them at a quarter of the size
    monkeypatch.setattr(decode_memory, "_room", decode_memory._Room(room))
    assert (loads_at_once(monkeypatch, tmp_path / name) == 1) == waits


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_large_image_is_decoded_after_a_fork_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGE_PIXELS", 1000)
    Image.fromarray(quadrants()).save(tmp_path / "a.png")
    decode(tmp_path / "a.png", SIZE)
    child = get_context("fork").Process(target=decode, args=(tmp_path / "a.png", SIZE))
    child.start()
    child.join(20)
    try:
        assert child.exitcode == 0
    finally:
        child.kill()


def test_nan_and_infinity_count_as_black(tmp_path: Path) -> None:
    values = np.kron(
        np.array([[np.nan, 1], [np.inf, 4]], np.float32), np.ones((32, 32), np.float32)
    )
    Image.fromarray(values).save(tmp_path / "a.tiff")
    assert_colours(tmp_path / "a.tiff", [[v] * 3 for v in (0, 64, 0, 255)])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in folders")
def test_a_pipe_is_refused_rather_than_waited_on(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    assert refusal(tmp_path / "a.png").endswith("is a pipe or a device: give a regular image file")


def refusal(path: Path) -> str:
    """The one-sentence error that refuses a file."""
    with pytest.raises(UserError) as error:
        decode(path, SIZE)
    text = str(error.value)
    assert "\n" not in text
    assert text.startswith(str(path))
    return text


def test_a_text_file_called_jpg_is_not_an_image(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_text("not a picture")
    assert refusal(tmp_path / "a.jpg").endswith(
        "is not an image that can be read (JPEG, PNG, WebP, GIF, BMP or TIFF): remove or replace it"
    )


def test_an_unsupported_format_is_refused_whatever_the_file_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object, **__: object) -> None:
        raise AssertionError("a program was run")

    monkeypatch.setattr(subprocess, "check_call", run)
    monkeypatch.setattr("PIL.EpsImagePlugin.has_ghostscript", run)
    for kind in ["EPS", "PPM", "TGA", "PCX", "ICO"]:
        Image.fromarray(quadrants()).save(tmp_path / "a.png", format=kind)
        assert "is not an image that can be read (JPEG, PNG" in refusal(tmp_path / "a.png")


def test_an_empty_file_is_not_an_image(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    assert "is not an image that can be read" in refusal(tmp_path / "a.png")


def test_a_truncated_file_is_refused_not_filled_with_grey(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    for name in ["a.jpg", "a.png", "a.webp", "a.gif", "a.bmp", "a.tiff"]:
        Image.fromarray(noise).save(tmp_path / name)
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[: len(content) // 2])
        assert "remove or replace it" in refusal(tmp_path / name)


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims a size but holds almost nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 9))


@pytest.mark.parametrize("side", [10_001, 12_000, 60_000])
def test_an_image_that_would_expand_to_gigabytes_is_refused_before_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: int
) -> None:
    def load(self: ImageFile.ImageFile) -> None:
        raise AssertionError("decoding began")

    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", load)
    (tmp_path / "a.png").write_bytes(png_header(side, side))
    assert refusal(tmp_path / "a.png").endswith(
        "has more than 100,000,000 pixels: scale it down first"
    )


def test_a_file_too_large_to_be_an_image_is_not_even_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 2**20)
    with open(tmp_path / "a.png", "wb") as file:
        file.truncate(2**20 + 1)
    assert "is larger than 1 MB" in refusal(tmp_path / "a.png")


def test_a_missing_file_is_not_called_damaged(tmp_path: Path) -> None:
    assert refusal(tmp_path / "a.png").endswith("cannot be opened: No such file or directory")


def test_a_folder_is_not_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "x.jpg").mkdir()
    assert refusal(tmp_path / "x.jpg").endswith("cannot be opened: Is a directory")


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.gif", "a.bmp", "a.webp"])
def test_however_a_file_is_damaged_the_result_is_an_image_or_one_sentence(
    tmp_path: Path, name: str
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(noise).save(tmp_path / name, exif=exif)
    content = (tmp_path / name).read_bytes()
    dice = np.random.default_rng(1)
    for _ in range(150):
        damaged = bytearray(content[: int(dice.integers(1, 2 * len(content)))])
        for _ in range(3):
            damaged[int(dice.integers(min(len(damaged), 300)))] = int(dice.integers(256))
        (tmp_path / name).write_bytes(damaged)
        try:
            assert decode(tmp_path / name, SIZE).shape == (SIZE, SIZE, 3)
        except UserError:
            refusal(tmp_path / name)


def test_pillows_warnings_do_not_reach_the_user(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png_header(12_000, 12_000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        importlib.reload(module)
        with pytest.raises(UserError, match="scale it down"):
            module.decode(tmp_path / "a.png", SIZE)


def test_decoding_in_threads_leaves_the_programs_warnings_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # catch_warnings changes the whole process: two overlapping ones may never undo the change.
    Image.fromarray(quadrants()).save(tmp_path / "a.png")
    before = list(warnings.filters)
    during: list[Any] = []
    real_open: Callable[..., Image.Image] = Image.open

    def spying_open(*args: Any, **kwargs: Any) -> Image.Image:
        during.append(list(warnings.filters))
        return real_open(*args, **kwargs)

    monkeypatch.setattr(Image, "open", spying_open)
    threads = [threading.Thread(target=decode, args=(tmp_path / "a.png", SIZE)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert during == [before] * 4
