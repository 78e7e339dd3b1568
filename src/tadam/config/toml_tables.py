"""Frozen dataclasses to and from TOML: updates that check names and types, and values as text."""

import dataclasses
import difflib
import json
import math
import tomllib
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar, get_args, get_origin, get_type_hints, runtime_checkable

from tadam.errors import UserError, excerpt

T = TypeVar("T")


@runtime_checkable
class Chosen(Protocol):
    """A table whose `name` decides which other keys it has."""

    @property
    def name(self) -> str: ...

    def chosen(self, table: Mapping[str, Any]) -> Any:
        """These settings, or those for the name in `table`."""
        ...


def updated(config: T, tables: dict[str, Any], prefix: str = "", **others: Any) -> T:
    """A copy of a dataclass with the keys of `tables` replaced; nested dataclasses are tables.

    `others` are values to replace as they are, in the same step, so that all are checked together.
    """
    names = {f.name for f in dataclasses.fields(config)}  # type: ignore[arg-type]
    hints = get_type_hints(type(config))
    changes = dict(others)
    for name, value in tables.items():
        key = prefix + excerpt(name)
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = (
                f"did you mean {prefix}{near[0]}?" if near else f"known: {', '.join(sorted(names))}"
            )
            whose = f" of {config.name!r}" if isinstance(config, Chosen) and not near else ""
            raise UserError(f"unknown key {key}{whose} ({hint})")
        if dataclasses.is_dataclass(hints[name]):
            if not isinstance(value, dict):
                raise UserError(f"{key} must be a table, got {excerpt(repr(value))}")
            changes[name] = updated(_chosen(getattr(config, name), value), value, key + ".")
        else:
            changes[name] = _converted(value, hints[name], key)
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]


def _chosen(section: Any, table: dict[str, Any]) -> Any:
    """The section, or, where its name decides its keys, the one for the new name."""
    return section.chosen(table) if isinstance(section, Chosen) else section


def _converted(value: Any, kind: Any, key: str) -> Any:
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise UserError(f"{key} must be a list, got {excerpt(repr(value))}")
        return tuple(_converted(item, get_args(kind)[0], key) for item in value)
    if kind is float and type(value) is int and abs(value) < 2**53:
        value = float(value)
    if type(value) is not kind:  # not isinstance: True must not pass for an int
        wanted = "true or false" if kind is bool else f"of type {kind.__name__}"
        raise UserError(f"{key} must be {wanted}, got {excerpt(repr(value))}")
    if kind is float and not math.isfinite(value):
        raise UserError(f"{key} must be a finite number, got {excerpt(repr(value))}")
    return value


def parse_value(text: str) -> Any:
    """A value as TOML writes it; a bare word is a string."""
    try:
        tables = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # not TOML, or nested too deeply
        return text.strip()
    return tables["value"] if len(tables) == 1 else text


def format_value(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(map(format_value, value)) + "]"
    if isinstance(value, str):
        # A JSON string is a TOML string, except for one character that TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
