"""JSON from strangers: bounded, and every field checked once."""

import contextlib
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tadam.system.untrusted_json import (
    BadJson,
    FieldCheck,
    fields,
    flag,
    list_of,
    maybe,
    number,
    object_of,
    one_of,
    parse_json,
    positive,
    text,
    whole,
)

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(plain)
def test_ordinary_json_is_read_as_it_was_written(value: Any) -> None:
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value).encode()) == value


def test_what_is_nested_too_deeply_is_refused() -> None:
    assert parse_json("[" * 32 + "]" * 32) is not None
    for deep in (
        "[" * 33 + "]" * 33,
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
    ):
        with pytest.raises(BadJson, match=r"nested too deeply|Expecting"):
            parse_json(deep)


@given(st.text() | st.binary())
def test_anything_else_is_refused_by_one_exception(text: str | bytes) -> None:
    with contextlib.suppress(BadJson):
        parse_json(text)


def test_huge_texts_and_huge_numbers_are_refused() -> None:
    for huge in (" " * (64 * 2**20 + 1), "9" * 5000):
        with pytest.raises(BadJson):
            parse_json(huge)


def test_a_check_takes_what_it_should_and_nothing_else() -> None:
    table: list[tuple[FieldCheck, list[Any], list[Any]]] = [
        (number(0, 2), [0, 1.5, 2], [-1, 2.5, 10**400, math.nan, math.inf, "1", None, True, [1]]),
        (positive, [1e-9, 3], [0, -1, 10**400, math.inf, math.nan, "1"]),
        (whole(), [0, 7], [-1, 1.0, 2**60, "7", None, True]),
        (text, ["", "a"], [1, None, ["a"]]),
        (flag, [True, False], [0, 1, None, "true"]),
        (one_of(("a", "b")), ["a"], ["c", 1, None, ["a"]]),
        (maybe(text), [None, "a"], [1]),
        (list_of(whole()), [[], [1, 2]], [1, [1, "2"], {"a": 1}]),
        (object_of(whole()), [{}, {"a": 1}], [[], {"a": "1"}]),
    ]
    for check, good, bad in table:
        for value in good:
            assert check(value) == value
        for value in bad:
            with pytest.raises(BadJson):
                check(value)


def test_the_field_that_is_wrong_is_named() -> None:
    required, optional = {"a": whole(), "b": text}, {"c": flag}
    assert fields({"a": 1, "b": "x", "more": 3}, required, optional) == {"a": 1, "b": "x"}
    for raw, word in (
        ({"a": -1, "b": "x"}, "^a: -1 is not a whole number"),
        ({"a": 1}, "^it has no 'b'"),
        ({"a": 1, "b": "x", "c": 0}, "^c: 0 is not true or false"),
        ([1], "not an object"),
    ):
        with pytest.raises(BadJson, match=word):
            fields(raw, required, optional)
