"""Every command with its arguments and options, from the command line itself."""

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from site_pages.markdown_tables import markdown_table
from tadam.cli.app import app

_HIDDEN = ("install_completion", "show_completion", "help")


def commands() -> Iterator[tuple[str, Any]]:
    """Each command that does something, by its full name, in the order of `tadam --help`."""

    def below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        if not hasattr(command, "commands"):
            yield name, command
            return
        for word, child in command.commands.items():
            yield from below(f"{name} {word}", child)

    yield from below("tadam", typer.main.get_command(app))


def _arguments(command: Any) -> list[Any]:
    return [p for p in command.params if p.param_type_name == "argument" and not p.hidden]


def _options(command: Any) -> list[Any]:
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    return [option for option in options if option.name not in _HIDDEN]


def _argument_name(argument: Any) -> str:
    name = (argument.metavar or argument.name).upper()
    name = f"{name}..." if argument.nargs == -1 and not name.endswith("...") else name
    return name if argument.required else f"[{name.strip('[]')}]"


def _option_name(option: Any) -> str:
    names = sorted([*option.opts, *option.secondary_opts], key=len)
    value = "" if option.is_flag else f" {option.metavar or option.name.upper()}"
    return ", ".join(f"`{name}{value if name.startswith('--') else ''}`" for name in names)


def _default(option: Any) -> str:
    if option.required:
        return "required"
    return f"`{option.default}`" if option.default not in (None, False, (), []) else ""


def _section(name: str, command: Any) -> str:
    words = [name, *map(_argument_name, _arguments(command)), "[OPTIONS]"]
    parts = [f"## {name}", inspect.cleandoc(command.help or ""), f"```text\n{' '.join(words)}\n```"]
    rows = [(f"`{_argument_name(a)}`", _default(a), a.help or "") for a in _arguments(command)]
    rows += [(_option_name(o), _default(o), o.help or "") for o in _options(command)]
    if rows:
        parts.append(markdown_table(("argument or option", "default", "meaning"), rows))
    return "\n\n".join(parts)


def command_reference() -> str:
    """A section for each command."""
    return "\n\n".join(_section(name, command) for name, command in commands()) + "\n"
