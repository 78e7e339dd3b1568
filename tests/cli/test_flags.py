"""Errors of the library name arguments; only the command line speaks of flags."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import tadam
from command_line import CommandLine, assert_one_sentence
from tadam.cli.app import app
from tadam.cli.flags import FLAGS, flag, with_flags
from tadam.errors import UserError

SOURCE = Path(tadam.__file__).parent
FLAG = re.compile(r"(?<![\w-])--[a-z]")
#: Flags of other programs, which their users did type.
OTHERS = re.compile(r"(torchrun('s)?|ray start) --[a-z-]+")
#: Text that is a command line or a style sheet to begin with.
EXEMPT = {
    "benchmarks/serving_speed.py": "starts `tadam serve`; and a boundary of multipart",
    "benchmarks/startup.py": "starts `tadam --help`",
    "benchmarks/targets.py": "names `tadam --help`, which is timed",
    "native/library.py": "a command of pip to copy",
    "reproduce/demo.py": "prints commands to copy",
    "reproduce/figure3.py": "writes down the command behind a result",
    "reproduce/imagenet.py": "is a script with options of its own",
    "reproduce/lemma1_results.py": "writes down the command behind a result",
    "reproduce/result.py": "writes down the command behind a result",
    "reports/check_report.py": "CSS, and a command to copy",
    "reports/demo_report.py": "shows commands to copy",
    "reports/evaluation_report.py": "CSS, and commands to copy",
    "reports/html.py": "CSS",
    "reports/photo_page.py": "CSS",
    "reports/prediction_map.py": "CSS",
    "reports/prediction_report.py": "CSS, and a command to copy",
}
ERRORS = ("UserError", "RunFailed", "Diverged", "Interrupted", "LostProcess")


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the library, the command line left out."""
    for file in sorted(SOURCE.rglob("*.py")):
        name = file.relative_to(SOURCE).as_posix()
        if not name.startswith("cli/"):
            yield name, ast.parse(file.read_text(encoding="utf-8"))


def strings(tree: ast.AST) -> Iterator[str]:
    """Text that may reach a user; docstrings stand alone as statements, and do not."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in docstrings else None
        if isinstance(text, str):
            yield text


def raised(tree: ast.Module) -> Iterator[str]:
    """Text inside `raise UserError(...)` and its relatives."""
    for node in ast.walk(tree):
        call = node.exc if isinstance(node, ast.Raise) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ERRORS:
            yield from strings(call)


def names_a_flag(text: str) -> bool:
    return FLAG.search(OTHERS.sub("", text)) is not None


def test_no_error_of_the_library_speaks_of_a_flag() -> None:
    found = [(name, text) for name, tree in modules() for text in raised(tree)]
    assert len(found) > 100
    assert [pair for pair in found if names_a_flag(pair[1])] == []


def test_no_other_text_of_the_library_speaks_of_a_flag_but_for_commands_to_copy() -> None:
    flags = {name for name, tree in modules() if any(map(names_a_flag, strings(tree)))}
    assert flags == set(EXEMPT)


def options(command: Any) -> Iterator[str]:
    """The flags of a command and of the commands below it."""
    for parameter in command.params:
        yield from parameter.opts
    for other in getattr(command, "commands", {}).values():
        yield from options(other)


def test_every_argument_that_an_error_names_is_a_flag_of_some_command() -> None:
    known = set(options(typer.main.get_command(app)))
    assert set(FLAGS.values()) <= known
    named = {
        argument
        for _, tree in modules()
        for text in raised(tree)
        for argument in re.findall(r"`(\w+)`", text)
    }
    assert {"out", "resume", "values", "settings"} <= named
    assert {flag(argument) for argument in named} <= known


def test_an_argument_in_backticks_becomes_the_flag_that_a_user_types() -> None:
    for sentence, expected in [
        ("choose another `out`", "choose another --out"),
        ("`settings` and `train_ways`", "--set and --train-way"),
        ("raise `reject_threshold`", "raise --reject-threshold"),
        ("set `TADAM_DATA`", "set --data"),
        ("it's 'out' or out", "it's 'out' or out"),
    ]:
        assert with_flags(sentence) == expected


def test_python_reads_the_argument_and_a_shell_the_flag(tadam: CommandLine, tmp_path: Path) -> None:
    from tadam.training.run import train

    (tmp_path / "mine").write_text("")
    with pytest.raises(UserError, match="mine is a file: choose a folder with `out`"):
        train("shapes", tmp_path / "mine")
    result = tadam("train", "shapes", "--out", tmp_path / "mine")
    assert_one_sentence(result, "mine is a file: choose a folder with --out")
