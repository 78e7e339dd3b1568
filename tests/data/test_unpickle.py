"""The restricted unpickler: other people's arrays come out unchanged, and nothing is ever run."""

import collections
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tadam.data.unpickle import load_pickle, load_pickled_bytes
from tadam.errors import UserError


def refusal(content: bytes) -> str:
    """The one-sentence error that refuses a pickle."""
    with pytest.raises(UserError) as error:
        load_pickled_bytes(content, "cache.pkl")
    text = str(error.value)
    assert "\n" not in text
    assert text.startswith("cache.pkl ")
    return text


PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
ARRAYS: dict[str, Any] = {
    "bytes": np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
    "fortran": np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
    "big-endian": np.arange(5, dtype=">i4"),
    "floats": np.linspace(0, 1, 7),
    "booleans": np.array([True, False]),
    "not contiguous": np.arange(20, dtype=np.int32)[::3],
}


def test_an_array_comes_out_unchanged() -> None:
    for array in ARRAYS.values():
        for protocol in PROTOCOLS:
            got = load_pickled_bytes(pickle.dumps({"x": array}, protocol), "a")["x"]
            np.testing.assert_array_equal(got, array)
            assert got.dtype == array.dtype


def test_plain_data_comes_out_unchanged() -> None:
    for protocol in PROTOCOLS:
        value = {
            "class_dict": {"n01": [0, 1, 2], "n02": []},
            "label": np.float64(2.5),
            "names": ["a", "é", b"\x00\xff"],
            "numbers": [1, -2, 2**70, 0.5, True, None, np.int64(7)],
        }
        assert load_pickled_bytes(pickle.dumps(value, protocol), "a") == value


def test_keys_that_python_2_wrote_become_text() -> None:
    # {'data': 'ab'} as Python 2 pickles it: strings without an encoding
    assert load_pickled_bytes(b"\x80\x02}U\x04dataU\x02abs.", "a") == {"data": b"ab"}


class Attack:
    def __init__(self, function: Callable[..., Any], *arguments: int | str) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


@pytest.mark.parametrize(
    ("function", "name"),
    [(os.mkdir, "mkdir"), (eval, ".eval"), (getattr, ".getattr")],
)
def test_a_malicious_pickle_is_one_sentence_and_is_not_run(
    tmp_path: Path, function: Callable[..., Any], name: str
) -> None:
    target = tmp_path / "made"
    arguments = {os.mkdir: [str(target)], eval: [f"__import__('os').mkdir({str(target)!r})"]}
    attack = {"data": Attack(function, *arguments.get(function, [1, "x"]))}
    for protocol in PROTOCOLS:
        text = refusal(pickle.dumps(attack, protocol))
        assert name in text
        assert text.endswith(
            "which no data file needs: none of it was run; delete it and "
            "download it again from the official source"
        )
        assert not target.exists()


def test_a_name_with_line_breaks_and_control_characters_is_still_one_sentence() -> None:
    name = b"x\n\x1b[31m" + b"y" * 100
    content = b"\x80\x04\x8c\x02os\x8c" + bytes([len(name)]) + name + b"\x93."
    text = refusal(content)
    assert "\x1b" not in text
    assert len(text) < 250


def test_anything_but_plain_values_and_numbers_is_refused() -> None:
    for value in [
        collections.OrderedDict(a=1),
        Path("x"),
        {"x": {1, 2}},
        {"x": (1, 2)},
        {"x": np.array([{}, []], dtype=object)},
        {"x": np.array(["text"])},
        {"x": np.zeros(2, dtype=[("a", "u1"), ("b", "f8")])},
        {"x": np.uint8},
        {"x": 1j},
    ]:
        assert "which no data file needs" in refusal(pickle.dumps(value))


def test_numpy_itself_is_never_called_by_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    content = pickle.dumps(np.arange(3))
    for name in ("_reconstruct", "scalar"):
        monkeypatch.setattr(f"numpy._core.multiarray.{name}", lambda *_: pytest.fail("called"))
    np.testing.assert_array_equal(load_pickled_bytes(content, "a"), [0, 1, 2])


def test_a_stand_in_cannot_be_changed_by_the_file() -> None:
    # GLOBAL numpy dtype, then BUILD with attributes for it
    content = b"\x80\x02cnumpy\ndtype\n}X\x05\x00\x00\x00_callK\x01sb."
    assert "modifies a function" in refusal(content)


def test_a_type_is_not_called_as_a_function() -> None:
    assert "calls numpy.ndarray" in refusal(b"\x80\x02cnumpy\nndarray\nK\x09\x85R.")


def test_an_encoding_other_than_latin1_is_refused() -> None:
    content = b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R."
    assert "rot13" in refusal(content)


GOOD = pickle.dumps({"data": np.arange(100, dtype=np.uint8), "labels": [1, 2, 3]}, 2)


def test_a_pickle_truncated_anywhere_is_one_sentence() -> None:
    for length in range(len(GOOD)):
        text = refusal(GOOD[:length])
        assert text == "cache.pkl is damaged or truncated: delete it and download it again"


def test_an_array_whose_shape_does_not_fit_its_bytes_is_damaged() -> None:
    assert "damaged" in refusal(GOOD.replace(b"Kd\x85", b"Ke\x85"))


def test_however_a_pickle_is_damaged_the_answer_is_a_value_or_one_sentence() -> None:
    dice = np.random.default_rng(0)
    for _ in range(2000):
        damaged = bytearray(GOOD)
        for _ in range(3):
            damaged[int(dice.integers(len(damaged)))] = int(dice.integers(256))
        try:
            load_pickled_bytes(bytes(damaged), "cache.pkl")
        except UserError:
            refusal(bytes(damaged))


def test_a_length_beyond_the_file_does_not_allocate_that_much_memory() -> None:
    for length in (2**62, 2**35):
        huge = b"\x80\x04\x8e" + struct.pack("<Q", length) + b"x."
        assert "damaged or truncated" in refusal(huge)


def test_a_high_memo_slot_does_not_allocate_memory() -> None:
    far = b"\x80\x02]r" + struct.pack("<I", 2**32 - 1) + b"."
    assert load_pickled_bytes(far, "a") == []


def test_a_list_that_holds_itself_a_million_times_over_is_walked_once() -> None:
    buffer: list[object] = []
    for _ in range(40):
        buffer = [buffer] * 20
    assert len(load_pickled_bytes(pickle.dumps(buffer), "a")) == 20


def test_what_is_nested_200_000_deep_is_refused_in_one_sentence() -> None:
    deep = 200_000
    nested = {
        "tuples": b")" + b"\x85" * deep,
        "a key of tuples": b"}(" + b")" + b"\x85" * deep + b"K\x01u",  # its hash killed Python
        "a set of tuples": b"(" + b")" + b"\x85" * deep + b"\x91",  # and so did this one's
        "tuples of two": b")" + b")\x86" * deep,
        "sets": b"(" * deep + b"\x91" * deep,
        "lists": b"]" * deep + b"a" * (deep - 1),
        "dicts": b"}K\x01" * deep + b"K\x02" + b"s" * deep,
    }
    for content in nested.values():
        with pytest.raises(UserError, match=r"^a holds .*, which no data file needs"):
            load_pickled_bytes(b"\x80\x04" + content + b".", "a")


def test_a_tuple_as_deep_as_an_arrays_state_is_read() -> None:
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    for protocol in range(5):
        found = load_pickled_bytes(pickle.dumps({"x": [array] * 3}, protocol), "a")
        np.testing.assert_array_equal(found["x"][2], array)


def test_a_file_that_needs_too_much_memory_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.pkl"
    path.write_bytes(b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"x.")
    with pytest.raises(UserError, match=r"a.pkl needs more memory than this machine has"):
        load_pickle(path, limit=100)


def test_a_file_is_read_only_up_to_a_size_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.pkl"
    path.write_bytes(GOOD)
    assert load_pickle(path, limit=len(GOOD))["labels"] == [1, 2, 3]
    with pytest.raises(UserError, match="is implausibly large"):
        load_pickle(path, limit=len(GOOD) - 1)
