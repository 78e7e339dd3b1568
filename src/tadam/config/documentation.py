"""What each setting means: the text below it in its dataclass, for help screens and pages."""

import ast
import dataclasses
import inspect
import textwrap
from dataclasses import dataclass, replace
from typing import Any

from tadam.config.recipe import Config
from tadam.config.sockets import BackboneConfig, MethodConfig
from tadam.registry import BACKBONES, METHODS


@dataclass(frozen=True)
class Setting:
    """A key of a recipe.

    Attributes:
        key: Its full name, such as `backbone.width`.
        default: Its value unless a recipe says otherwise.
        meaning: The text below it in its dataclass.
        owners: The backbones or methods that have it; empty if all of them do.
    """

    key: str
    default: Any
    meaning: str
    owners: tuple[str, ...] = ()


def settings() -> list[Setting]:
    """Every setting, table by table; `owners` names the methods or backbones it is limited to."""
    found = []
    for table, section in vars(Config()).items():
        registry = {"method": METHODS, "backbone": BACKBONES}.get(table)
        if registry is None:
            found += _of_table(table, type(section))
            continue
        common = _of_table(table, {"method": MethodConfig, "backbone": BackboneConfig}[table])
        own: dict[Setting, list[str]] = {}
        for name in registry.names():
            for setting in _of_table(table, registry.settings(name)):
                own.setdefault(setting, []).append(name)
        found += common
        found += [
            replace(setting, owners=tuple(owners))
            for setting, owners in own.items()
            if setting.key not in {shared.key for shared in common}
        ]
    return found


def _of_table(table: str, kind: type) -> list[Setting]:
    meanings = _meanings(kind)
    return [
        Setting(f"{table}.{f.name}", getattr(kind(), f.name), meanings.get(f.name, ""))
        for f in dataclasses.fields(kind)
    ]


def _meanings(kind: type) -> dict[str, str]:
    """Setting -> the text below it, or the base class's text if it has none of its own."""
    meanings: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(body, ast.ClassDef)
        for field, text in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            ):
                meanings[field.target.id] = text.value.value
    return meanings
