"""The array cache: made once, remade when damaged, skipped when it cannot be written."""

import contextlib
import errno
import io
import shutil
from collections.abc import Callable, Iterator
from io import BufferedWriter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tadam.data import cache, seal
from tadam.data.cache import CacheWarning
from tadam.data.store import ImageStore
from tadam.errors import UserError
from tadam.system import files
from tadam.system.files import cache_dir

SHAPE = (5, 4, 4, 3)


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class Maker:
    """Fills an array with a pattern that its number sets, and counts the calls."""

    def __init__(self, number: int = 1) -> None:
        self.number, self.calls = number, 0

    def expected(self) -> npt.NDArray[np.uint8]:
        size = int(np.prod(SHAPE))
        return (np.arange(size) * self.number % 256).astype(np.uint8).reshape(SHAPE)

    def __call__(self, out: npt.NDArray[np.uint8]) -> None:
        self.calls += 1
        out[:] = self.expected()


def get(maker: Maker) -> npt.NDArray[np.uint8]:
    return cache.cached_array("x", SHAPE, maker)


def cached_file() -> npt.NDArray[np.uint8]:
    return np.asarray(np.load(cache_dir() / "x.npy"))


@pytest.fixture(params=["in memory", "mapped"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test for small arrays and for large ones."""
    if request.param == "mapped":
        monkeypatch.setattr(cache, "LARGE", 10)


@pytest.mark.usefixtures("either")
def test_an_array_is_made_once_and_then_read() -> None:
    maker = Maker()
    for _ in range(2):
        array = get(maker)
        assert array.shape == SHAPE
        assert array.dtype == np.uint8
        np.testing.assert_array_equal(array, maker.expected())
    assert maker.calls == 1
    np.testing.assert_array_equal(cached_file(), maker.expected())
    assert [p.name for p in cache_dir().iterdir()] == ["x.npy"]


def test_the_cache_wins_over_the_maker() -> None:
    get(Maker(1))
    other = Maker(2)
    np.testing.assert_array_equal(get(other), Maker(1).expected())
    assert other.calls == 0


def test_names_do_not_share_an_array() -> None:
    get(Maker(1))
    other = Maker(2)
    np.testing.assert_array_equal(cache.cached_array("y", SHAPE, other), other.expected())


def npy(array: npt.NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


GOOD = npy(Maker().expected())
DAMAGED = {
    "empty": b"",
    "text": b"this is no array\n" * 40,
    "half a header": GOOD[:40],
    "half the pixels": GOOD[:-100],
    "a zip archive": b"PK\x03\x04" + GOOD[4:],
    "an unclosed header": GOOD.replace(b"(5, 4, 4, 3)", b"(5, 4, 4, 3 "),
    "an open string": GOOD.replace(b"'shape'", b"'shape "),
    "another shape": npy(np.zeros((4, 4, 4, 3), np.uint8)),
    "another type": npy(np.zeros(SHAPE, np.int16)),
    "pickled objects": npy(np.array([{}], dtype=object)),
}


@pytest.mark.usefixtures("either")
@pytest.mark.filterwarnings("ignore:Reading `.npy`")
def test_a_damaged_file_is_remade() -> None:
    cache_dir().mkdir(parents=True)
    for content in DAMAGED.values():
        (cache_dir() / "x.npy").write_bytes(content)
        maker = Maker()
        np.testing.assert_array_equal(get(maker), maker.expected())
        assert maker.calls == 1
        np.testing.assert_array_equal(cached_file(), maker.expected())


def test_a_small_array_works_without_a_writable_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def read_only(path: Path) -> Iterator[None]:
        raise files.not_written(path, OSError(errno.EROFS, "Read-only file system"))
        yield

    monkeypatch.setattr(cache, "replacing", read_only)
    maker = Maker()
    for calls in (1, 2):
        with pytest.warns(CacheWarning, match=r"x\.npy cannot be written .* decoded again"):
            np.testing.assert_array_equal(get(maker), maker.expected())
        assert maker.calls == calls


def test_a_disk_that_fills_up_while_writing_leaves_no_half_written_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(file: BufferedWriter, header: object) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array_header_1_0", full)
    maker = Maker()
    with pytest.warns(CacheWarning, match="the disk is full"):
        np.testing.assert_array_equal(get(maker), maker.expected())
    assert list(cache_dir().iterdir()) == []


@pytest.mark.usefixtures("either")
def test_a_maker_that_fails_leaves_nothing_behind() -> None:
    def fail(out: npt.NDArray[np.uint8]) -> None:
        raise UserError("cat.jpg is damaged")

    with pytest.raises(UserError, match="is damaged"):
        cache.cached_array("x", SHAPE, fail)
    assert not cache_dir().exists() or list(cache_dir().iterdir()) == []


def test_only_an_array_above_the_limit_is_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    size = int(np.prod(SHAPE))
    for limit, mapped in ((size, False), (size - 1, True)):
        monkeypatch.setattr(cache, "LARGE", limit)
        for _ in range(2):  # made, then read from the cache
            array = get(Maker())
            assert isinstance(array, np.memmap) is mapped
            np.testing.assert_array_equal(array, Maker().expected())
        (cache_dir() / "x.npy").unlink()


def test_a_mapped_array_cannot_be_changed_by_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LARGE", 10)
    with pytest.raises(ValueError, match="read-only"):
        get(Maker())[0] = 0


def test_a_large_array_is_refused_when_the_disk_has_no_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cache, "LARGE", 10)
    usage = type("Usage", (), {"free": 2**29})
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(UserError) as error:
        get(Maker())
    assert "0.5 GB free: make room, or choose a smaller image size" in str(error.value)
    assert str(cache_dir()) in str(error.value)


COUNTS = {"train": {"b": 2, "a": 1}, "test": {"c": 2}}


def stores(maker: Maker, count: Callable[..., Any] = lambda: COUNTS) -> dict[str, ImageStore]:
    return cache.cached_stores("x", SHAPE[1:], count, maker)


def test_stores_are_counted_and_made_once_classes_in_order() -> None:
    for count in (lambda: COUNTS, lambda: pytest.fail("counted again")):
        maker = Maker()
        found = stores(maker, count)
        assert found["train"].class_names == ("b", "a")
        assert found["train"].counts.tolist() == [2, 1]
        np.testing.assert_array_equal(found["test"].images, maker.expected()[3:])


def test_damaged_counts_are_remade() -> None:
    for content in ["", "{", "[]", '{"train": 3}', '{"train": {"a": "x"}}']:
        stores(Maker())
        (cache_dir() / "x.json").write_text(content)
        assert stores(Maker())["train"].counts.tolist() == [2, 1]
        assert '"b": 2' in (cache_dir() / "x.json").read_text()


def test_counting_works_without_a_writable_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(path: Path, text: str) -> None:
        raise files.not_written(path, OSError(errno.EROFS, "Read-only file system"))

    monkeypatch.setattr(cache, "write_text", read_only)
    with pytest.warns(CacheWarning, match=r"\.json cannot be written"):
        assert stores(Maker())["test"].counts.tolist() == [2]


def test_a_flipped_bit_anywhere_in_a_cached_array_makes_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seal, "_BLOCK", 7)  # several checksums
    maker = Maker()
    expected = get(maker).copy()
    path = cache.cache_path("x")
    whole = path.read_bytes()
    for place in range(0, 8 * len(whole), 131):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        np.testing.assert_array_equal(get(maker), expected)
    for length in range(0, len(whole), 17):
        path.write_bytes(whole[:length])
        np.testing.assert_array_equal(get(maker), expected)


def test_an_array_that_an_earlier_version_cached_without_a_checksum_is_used() -> None:
    maker = Maker()
    expected = get(maker).copy()
    np.save(cache.cache_path("x"), expected)
    np.testing.assert_array_equal(get(maker), expected)
    assert maker.calls == 1


def test_counts_that_are_damaged_are_counted_again() -> None:
    maker = Maker()
    counts = stores(maker)["test"].counts.tolist()
    (path,) = cache_dir().glob("*.json")
    for text in ("[" * 100_000, '{"test": {"a": -1}}', '{"test": {"a": 1.5}}', '{"test": 3}', "{"):
        path.write_text(text)
        assert stores(maker)["test"].counts.tolist() == counts
