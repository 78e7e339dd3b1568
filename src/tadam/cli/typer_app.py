"""Typer as our commands use it: options come in bundles, and a flag's help shows no value.

A command that takes a dataclass of options, `def table2(*, runs: Runs)`, gets a flag for each of
its fields. So a list of options that several commands share stands in one place.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from tadam.system.untrusted_text import printable

#: What an unknown option, command or value raises; Typer has no public name for it.
_UsageError: Any = typer.BadParameter.__mro__[1]


class App(typer.Typer):
    """A group of commands; without one, it shows what there is."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=_Group, no_args_is_help=True, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[..., Any]:
        """Decorates the function that a command calls."""
        register = super().command(name, cls=_Command, **settings)

        def add(function: Callable[..., None]) -> Callable[..., None]:
            register(_unbundled(function))
            return function

        return add


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> Any:
        return _without_flags_values(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> Any:
        return _without_flags_values(super().get_params(ctx))

    def make_context(self, *given: Any, **more: Any) -> Any:
        with _printable_mistakes():
            return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        with _printable_mistakes():
            return super().invoke(ctx)


@contextmanager
def _printable_mistakes() -> Iterator[None]:
    """Shows what was typed wrong with its control characters as escapes."""
    try:
        yield
    except _UsageError as error:
        error.message = printable(error.message)
        raise


def _without_flags_values(parameters: list[Any]) -> list[Any]:
    """Typer would write `--json <bool>`, as if one could type `--json true`."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


def _unbundled(function: Callable[..., None]) -> Callable[..., None]:
    """The function as Typer reads it: a bundle gives way to its fields."""
    hints = get_type_hints(function, include_extras=True)
    bundles: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    if not bundles:
        return function
    parameters: list[Parameter] = []
    for name, parameter in signature(function).parameters.items():
        if name in bundles:
            own = get_type_hints(bundles[name], include_extras=True)
            parameters += [
                Parameter(f.name, Parameter.KEYWORD_ONLY, default=f.default, annotation=own[f.name])
                for f in fields(bundles[name])
            ]
        else:
            kind = Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(kind=kind, annotation=hints[name]))

    def command(**given: Any) -> None:
        for name, bundle in bundles.items():
            given[name] = bundle(**{f.name: given.pop(f.name) for f in fields(bundle)})
        function(**given)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
