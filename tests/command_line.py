"""The command line in this process, for tests: what it printed, and how it ended."""

import sys
from dataclasses import dataclass

import pytest

from tadam.cli.app import main


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


class CommandLine:
    """Runs `tadam ARGS` on a terminal of 200 columns."""

    def __init__(self, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self._patch, self._capture = patch, capture

    def __call__(self, *arguments: object) -> Result:
        self._patch.setattr(sys, "argv", ["tadam", *map(str, arguments)])
        self._patch.setenv("COLUMNS", "200")
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = self._capture.readouterr()
        return Result(code, captured.out, captured.err)


def assert_one_sentence(result: Result, *words: str, code: int = 2) -> None:
    """A user's mistake: one line on stderr that has the words, no traceback."""
    assert result.code == code, result.err
    assert result.err.count("\n") == 1
    assert result.err.startswith("error: ")
    assert "Traceback" not in result.err
    for word in words:
        assert word in result.err
