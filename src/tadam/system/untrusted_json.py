"""Reads JSON that may be damaged or hostile: bounded in size and depth, every field checked.

Whoever reads a file lists its fields in a table, name -> check, and gets values that need no
further look. What is wrong is a `BadJson`, which the caller turns into a sentence about its file.
"""

import json
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

#: Our deepest file has five levels.
_MOST_LEVELS = 32
_MOST_CHARACTERS = 64 * 2**20

#: Returns the value, perhaps converted, or raises `BadJson`.
FieldCheck = Callable[[Any], Any]


class BadJson(ValueError):
    """Text that is not JSON, or not what it should hold."""


def parse_json(text: str | bytes) -> Any:
    """The value that a JSON text holds."""
    if len(text) > _MOST_CHARACTERS:
        raise BadJson(f"it has {len(text):,} characters")
    try:
        value = json.loads(text)
    except RecursionError:
        raise BadJson("it is nested too deeply") from None
    except ValueError as error:  # also text that is not UTF-8
        raise BadJson(str(error)) from None
    _check_levels(value)
    return value


def _check_levels(value: Any) -> None:
    level = [value]
    for _ in range(_MOST_LEVELS):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise BadJson("it is nested too deeply")


def fields(
    raw: Any, required: Mapping[str, FieldCheck], optional: Mapping[str, FieldCheck] | None = None
) -> dict[str, Any]:
    """The checked fields of an object; others are ignored, as newer versions may add some.

    Args:
        raw: What should be a JSON object.
        required: Name -> check.
        optional: The same for fields that may be absent; they are then absent from the result.
    """
    if not isinstance(raw, dict):
        raise BadJson("it is not an object")
    found = {}
    for name, check in {**required, **(optional or {})}.items():
        if name not in raw and name not in required:
            continue
        if name not in raw:
            raise BadJson(f"it has no {name!r}")
        try:
            found[name] = check(raw[name])
        except BadJson as error:
            raise BadJson(f"{name}: {error}") from None
    return found


def number(low: float = -math.inf, high: float = math.inf) -> FieldCheck:
    """A finite number from `low` to `high`, as float."""

    def check(value: Any) -> float:
        try:
            ok = isinstance(value, int | float) and not isinstance(value, bool)
            converted = float(value) if ok else math.nan
        except OverflowError:
            converted = math.nan
        if not (low <= converted <= high and math.isfinite(converted)):
            raise BadJson(f"{_shown(value)} is not a number from {low:g} to {high:g}")
        return converted

    return check


def positive(value: Any) -> float:
    """A finite number above 0."""
    return float(number(math.ulp(0.0))(value))


def whole(low: int = 0, high: int = 2**53) -> FieldCheck:
    """An integer from `low` to `high`."""

    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise BadJson(f"{_shown(value)} is not a whole number from {low} to {high}")
        return value

    return check


def text(value: Any) -> str:
    """Any text."""
    if not isinstance(value, str):
        raise BadJson(f"{_shown(value)} is not text")
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise BadJson(f"{_shown(value)} is not true or false")
    return value


def one_of(choices: Collection[str]) -> FieldCheck:
    """One of some texts."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise BadJson(f"{_shown(value)} is not one of {', '.join(choices)}")
        return value

    return check


def maybe(check: FieldCheck) -> FieldCheck:
    """Null, or what `check` takes."""
    return lambda value: None if value is None else check(value)


def list_of(check: FieldCheck) -> FieldCheck:
    """A list whose items pass `check`."""

    def check_all(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise BadJson(f"{_shown(value)} is not a list")
        return [check(item) for item in value]

    return check_all


def object_of(check: FieldCheck) -> FieldCheck:
    """An object with any names, whose values pass `check`."""

    def check_all(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise BadJson(f"{_shown(value)} is not an object")
        return {name: check(item) for name, item in value.items()}

    return check_all


def _shown(value: Any) -> str:
    """The start of a value; a huge integer cannot even be printed."""
    try:
        return repr(value)[:60]
    except (ValueError, RecursionError):
        return "a huge number"
