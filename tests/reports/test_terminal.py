"""What jobs look like on a terminal, and where there is none."""

import io

import pytest
from rich.console import Console

import tadam.reports.terminal
from tadam.reports.terminal import JobReporter


def shown(monkeypatch: pytest.MonkeyPatch, live: bool, terminal: bool) -> str:
    """All that a reporter of three jobs writes."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100, markup=False, highlight=False)
    monkeypatch.setattr(tadam.reports.terminal, "err", console)
    reporter = JobReporter(live)
    reporter.running(["a [red]"], 0, 3)
    reporter.running(["b", "c"] if live else ["b"], 1, 3)
    reporter.note("b: its worker died")
    reporter.stop()
    return file.getvalue()


@pytest.mark.parametrize("name", ["out", "err", "alarm"])
def test_a_path_is_printed_as_it_is(name: str) -> None:
    console = getattr(tadam.reports.terminal, name)
    with console.capture() as captured:
        console.print("photos:dog:/[red]x", soft_wrap=True)
    assert captured.get() == "photos:dog:/[red]x\n"


def test_a_bar_shows_how_many_have_ended_and_which_are_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = shown(monkeypatch, live=True, terminal=True)
    assert "1/3" in text
    assert "running: b, c" in text
    assert "b: its worker died" in text


def test_a_bar_is_not_drawn_into_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, live=True, terminal=False) == "b: its worker died\n"


def test_jobs_with_bars_of_their_own_get_a_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, live=False, terminal=False)
    assert text == "a [red] (1 of 3)\nb (2 of 3)\nb: its worker died\n"
