"""Whatever an image file claims, reading it takes less than half a gigabyte."""

import io
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tadam.data import decode_memory
from tadam.data.decode import decode, decode_upright
from tadam.errors import UserError

# pytest undoes the filter that decode sets when it is imported
pytestmark = pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")

#: Prints the memory, in bytes above that after a first prediction, that the files in a folder take
#: with eight readers.
PEAK = """
import os, sys
from pathlib import Path
os.cpu_count = lambda: 8
import numpy as np, torch
torch.set_num_threads(1)
from tadam import FewShotClassifier
from toy_backbones import Colours, blobs

def peak():
    (line,) = [x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x]
    return int(line.split()[1]) * 1024

classifier = FewShotClassifier(Colours()).fit(*blobs(3, 4))
classifier.predict([np.zeros((300, 300, 3), np.uint8)] * 32)
before, problems = peak(), []
files = sorted(Path(sys.argv[1]).iterdir()) * 2
read = classifier.classify(files, problems=problems)
assert len(read) + len(problems) == len(files)
print(len(problems), peak() - before)
"""


def png(path: Path, width: int, height: int, colour: int = 0) -> None:
    """A PNG of a few bytes that claims any size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    content = (
        chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + content)


def webp(path: Path, side: int) -> None:
    """A lossless WebP of some forty bytes, with transparency."""
    image = io.BytesIO()
    Image.new("RGBA", (16, 16)).save(image, "WEBP", lossless=True)
    content = bytearray(image.getvalue())
    place = content.index(b"VP8L") + 9
    (bits,) = struct.unpack_from("<I", content, place)
    struct.pack_into("<I", content, place, bits >> 28 << 28 | (side - 1) << 14 | (side - 1))
    path.write_bytes(content)


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        decode(path, 84)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_a_row_or_column_of_a_hundred_million_pixels_is_refused(tmp_path: Path) -> None:
    for name, size in {"wide": (99_000_000, 1), "tall": (1, 99_999_999)}.items():
        png(tmp_path / f"{name}.png", *size)
        assert "more than 65,535 on a side" in refusal(tmp_path / f"{name}.png")
    Image.new("1", (70_000, 1)).save(tmp_path / "wide.tiff", compression="group4")
    content = (tmp_path / "wide.tiff").read_bytes()
    width = struct.pack("<HHI", 256, 4, 1)  # the tag of a TIFF that has its width
    assert content.count(width + struct.pack("<I", 70_000)) == 1
    claim = width + struct.pack("<I", 99_000_000)
    (tmp_path / "wide.tiff").write_bytes(content.replace(width + struct.pack("<I", 70_000), claim))
    assert "99000000 x 1 pixels, more than 65,535 on a side" in refusal(tmp_path / "wide.tiff")


def test_what_would_take_too_much_memory_is_refused_before_it_does(tmp_path: Path) -> None:
    webp(tmp_path / "a.webp", 10_000)
    assert (tmp_path / "a.webp").stat().st_size < 100
    assert "would take 1,5" in refusal(tmp_path / "a.webp")
    png(tmp_path / "a.png", 10_000, 10_000, colour=2)
    assert "MB of memory to decode" in refusal(tmp_path / "a.png")


def test_a_jpeg_counts_its_coefficients_if_it_has_several_scans(tmp_path: Path) -> None:
    """Two bytes for each coefficient, a quarter as many for the colours at half the resolution."""
    side = 64
    for progressive in (False, True):
        for subsampling, share in ((0, 3.0), (2, 1.5)):
            path = tmp_path / "a.jpg"
            Image.new("RGB", (side, side)).save(
                path, progressive=progressive, subsampling=subsampling
            )
            with Image.open(path) as image:
                found = decode_memory.coefficient_cost(image)
            assert found == (2 * share * side**2 if progressive else 0)


def test_a_jpeg_whose_components_come_one_after_the_other_has_several_scans(tmp_path: Path) -> None:
    Image.new("RGB", (64, 64)).save(tmp_path / "a.jpg", subsampling=0)
    content = bytearray((tmp_path / "a.jpg").read_bytes())
    place = content.index(b"\xff\xda") + 4
    assert content[place] == 3
    content[place] = 1  # components of the first scan
    (tmp_path / "a.jpg").write_bytes(content)
    with Image.open(tmp_path / "a.jpg") as image:
        assert decode_memory.coefficient_cost(image) == 6 * 64**2


def test_a_large_image_is_reduced_to_what_it_was_on_average(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2400, 1800, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png", compress_level=1)
    found = decode_upright(tmp_path / "a.png", 84)
    blocks = pixels.reshape(1200, 2, 900, 2, 3).mean(axis=(1, 3))  # 4.3 million pixels, halved
    np.testing.assert_allclose(found, blocks, atol=0.51)


def test_memory_that_cannot_be_had_is_a_sentence_about_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")

    def no_memory(self: Image.Image) -> None:
        raise MemoryError

    monkeypatch.setattr(Image.Image, "getexif", no_memory)
    assert "needs more memory than this machine has" in refusal(tmp_path / "a.png")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_eight_readers_of_the_worst_files_stay_below_half_a_gigabyte(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    Image.new("RGB", (8800, 8800)).save(files / "large.png", compress_level=1)
    Image.new("CMYK", (6000, 6000)).save(files / "progressive.jpg", progressive=True)
    Image.new("RGBA", (4000, 4000)).save(files / "transparent.webp", lossless=True, method=0)
    Image.new("RGB", (1400, 1400)).save(files / "photo.png", compress_level=1)
    Image.new("RGB", (5600, 5600)).save(files / "scan.tiff", compression="tiff_lzw")
    webp(files / "claims.webp", 10_000)
    png(files / "claims.png", 1, 99_999_999)
    png(files / "damaged.png", 8000, 8000, colour=6)
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(files)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    problems, peak = map(int, done.stdout.split())
    assert problems == 6
    assert peak < 500_000_000
