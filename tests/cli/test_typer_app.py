"""Bundles of options, and help screens of every command there is."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.testing import CliRunner

from command_line import CommandLine
from tadam.cli.app import app
from tadam.cli.typer_app import App


@dataclass(frozen=True)
class Paint:
    colour: Annotated[str, typer.Option("--paint", help="Its colour.")] = "red"
    coats: Annotated[int, typer.Option(help="How many.")] = 2
    gloss: Annotated[bool, typer.Option("--gloss", help="Shiny.")] = False


def painting() -> tuple[App, list[object]]:
    """`WALL [--paint] [--coats] [--gloss] [--dry]`, and what it was called with."""
    calls: list[object] = []
    commands = App()

    @commands.command("paint")
    def paint(
        wall: str, *, paint: Paint, dry: Annotated[bool, typer.Option("--dry")] = False
    ) -> None:
        calls.append((wall, paint, dry))

    @commands.command("look")
    def look() -> None:
        calls.append("look")

    return commands, calls


def test_a_bundle_of_options_reaches_the_command_as_one_object() -> None:
    commands, calls = painting()
    runner = CliRunner()
    assert runner.invoke(commands, ["paint", "north"]).exit_code == 0
    words = ["paint", "--coats", "3", "south", "--paint", "blue", "--gloss", "--dry"]
    assert runner.invoke(commands, words).exit_code == 0
    assert runner.invoke(commands, ["look"]).exit_code == 0
    assert calls == [
        ("north", Paint("red", 2, False), False),
        ("south", Paint("blue", 3, True), True),
        "look",
    ]
    assert runner.invoke(commands, ["paint", "east", "--coats", "some"]).exit_code == 2


def all_commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield words
    for name, other in getattr(command, "commands", {}).items():
        yield from all_commands(other, (*words, name))


def test_the_help_of_every_command_fits_a_screen_and_shows_no_value_for_flags(
    tadam: CommandLine,
) -> None:
    for words in list(all_commands(typer.main.get_command(app))):
        result = tadam(*words, "--help")
        assert result.code == 0
        assert "Usage: tadam" in result.out
        assert "--help" in result.out
        assert "<bool>" not in result.out
        assert result.out.count("\n") <= 40
