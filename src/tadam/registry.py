"""Finds methods and backbones by the names that recipes use.

A method or backbone is one file of that name in its package, or of the name's beginning if the file
holds several (`efficientnet_lite` for `efficientnet_lite0`). The file registers its class together
with the dataclass of its settings, and nothing else has to know about it. It is imported when a
recipe first names it, so that reading settings does not load every network there is.
"""

import contextlib
import dataclasses
import difflib
import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from tadam.errors import UserError, excerpt

C = TypeVar("C", bound=type)


class Registry:
    """Classes and their settings by name.

    Args:
        kind: What is registered, as errors and the recipe's table call it.
        package: Where to look for a name that is not registered yet.
    """

    def __init__(self, kind: str, package: str) -> None:
        self.kind, self._package = kind, package
        self._entries: dict[str, tuple[Any, Any]] = {}

    def register(self, name: str, settings: type) -> Callable[[C], C]:
        """Decorates a class.

        Args:
            name: Its name in recipes.
            settings: The dataclass of its table in a recipe.
        """

        _check_settings(settings, name)

        def keep(registered: C) -> C:
            known = self._entries.get(name)
            if known and known[0].__module__ != registered.__module__:
                raise ValueError(
                    f"{self.kind} {name!r} is already registered by {known[0].__module__}"
                )
            self._entries[name] = (registered, settings)
            return registered

        return keep

    def find(self, name: str) -> Any:
        """The class registered under this name."""
        return self._entry(name)[0]

    def settings(self, name: str) -> Any:
        """The dataclass of its settings."""
        return self._entry(name)[1]

    def names(self) -> list[str]:
        """Every name that a recipe may use."""
        for module in self._modules():
            with contextlib.suppress(ImportError):  # one that lacks a package hides no other
                importlib.import_module(f"{self._package}.{module}")
        return sorted(self._entries)

    def _modules(self) -> list[str]:
        package = importlib.import_module(self._package)
        return [module.name for module in pkgutil.iter_modules(package.__path__)]

    def _entry(self, name: str) -> tuple[Any, Any]:
        # Only files of the package are imported: a name may come from an untrusted file.
        for module in self._modules() if name not in self._entries else ():
            if not name.startswith(module):
                continue
            try:
                importlib.import_module(f"{self._package}.{module}")
            except ImportError as error:
                raise UserError(f"{self.kind} {name!r} cannot be loaded: {error}") from None
        if name not in self._entries:
            names = self.names()
            near = difflib.get_close_matches(name, names, n=1)
            hint = (
                f"did you mean {near[0]}?"
                if near
                else f"save one of your own in {self._package}, or import it first"
            )
            raise UserError(
                f"{self.kind}.name must be one of {', '.join(names)}, "
                f"got {excerpt(repr(name))} ({hint})"
            )
        return self._entries[name]


def _check_settings(settings: type, name: str) -> None:
    """Refuses settings that a recipe could not hold, before anything is trained with them."""
    if not dataclasses.is_dataclass(settings) or settings().name != name:  # type: ignore[attr-defined]
        raise ValueError(f"the settings of {name!r} must be a dataclass whose `name` is {name!r}")
    hints = get_type_hints(settings)
    for field in dataclasses.fields(settings):
        kind = hints[field.name]
        if get_origin(kind) is tuple and get_args(kind)[1:] == (...,):
            kind = get_args(kind)[0]
        if kind not in (bool, int, float, str):
            raise ValueError(
                f"setting {field.name} of {name!r} must be a bool, int, float, str or a "
                f"tuple[..., ...] of one of them, got {hints[field.name]}"
            )


BACKBONES = Registry("backbone", "tadam.nn.backbones")
METHODS = Registry("method", "tadam.methods")
