"""Runs `tadam ARGS` in the test's own process."""

import sys

import pytest

from tadam.cli import main


class Result:
    """Exit code, and what went to stdout and stderr."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


def run_tadam(
    patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> Result:
    patch.setattr(sys, "argv", ["tadam", *map(str, arguments)])
    patch.setenv("COLUMNS", "200")
    try:
        main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return Result(code, captured.out, captured.err)


def assert_one_sentence(result: Result, *words: str, code: int = 2) -> None:
    assert result.code == code, result.err
    assert result.err.count("\n") == 1
    assert result.err.startswith("error: ")
    assert "Traceback" not in result.err
    for word in words:
        assert word in result.err
