"""What the commands share on a terminal: consoles, a progress bar, numbers and tables."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from tadam.distributed.jobs import Watcher
from tadam.evaluation.conditioning import CONTROL_NAMES
from tadam.system.torchrun import place
from tadam.system.untrusted_text import printable_lines

if TYPE_CHECKING:
    from tadam.evaluation.tasks import Evaluation

#: Results go to stdout, everything else to stderr, so that `--json | jq` works.
#: No markup, no emoji: a path or a class may be called "[red]" or ":dog:".
#: Under torchrun every process runs the same command, and only the first one prints ...
_quiet = place().rank > 0
_plain: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}


class SafeConsole(Console):
    """A console that no text can control: whatever is printed, ESC shows as `\\x1b`."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable_lines(text), **options)


out = SafeConsole(**_plain, quiet=_quiet)
err = SafeConsole(**_plain, stderr=True, quiet=_quiet)
#: ... except about what happens to one process alone.
alarm = SafeConsole(**_plain, stderr=True)


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function of (done, total) that draws a bar; the bar disappears at the end."""
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        tasks: list[Any] = []

        def progress(done: int, total: int) -> None:
            if not tasks:
                tasks.append(bar.add_task("", total=total))
            bar.update(tasks[0], completed=done, total=total)

        yield progress


class JobReporter(Watcher):
    """Shows which jobs are running: in a live bar, or a line each if they draw their own bars."""

    def __init__(self, live: bool) -> None:
        self._live = live
        self._bar: Progress | None = None

    def running(self, names: Sequence[str], done: int, total: int) -> None:
        if not self._live:
            err.print(f"{names[0]} ({done + 1} of {total})", style="bold")
            return
        if self._bar is None:
            names_column = TextColumn("{task.description}", markup=False)
            columns = (BarColumn(), MofNCompleteColumn(), names_column)
            self._bar = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
            self._task = self._bar.add_task("", total=total)
            self._bar.start()
        description = f"running: {', '.join(names)}" if names else "waiting"
        self._bar.update(self._task, completed=done, description=description)

    def note(self, text: str) -> None:
        err.print(text, soft_wrap=True)

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def print_json(result: Any) -> None:
    """Prints plain JSON to stdout, whatever the terminal's width."""
    if not out.quiet:
        sys.stdout.write(json.dumps(result, indent=2) + "\n")


def percent(value: float, interval: float | None = None) -> str:
    """A fraction as `61.2 ± 0.4 %`."""
    half = f" ± {100 * interval:.1f}" if interval is not None else ""
    return f"{100 * value:.1f}{half} %"


def points(difference: float, interval: float | None = None) -> str:
    """A difference of fractions as `+1.23 ± 0.45`."""
    half = f" ± {100 * interval:.2f}" if interval is not None else ""
    return f"{100 * difference:+.2f}{half}"


def print_evaluation(result: "Evaluation") -> None:
    """Prints accuracy, what conditioning brings, calibration, and classes, worst first."""
    family = f", {100 * result.within_family:.0f} % within a family" if result.within_family else ""
    out.print(
        f"{result.model} on {result.dataset} ({result.split}): {result.way}-way "
        f"{result.shot}-shot, {result.tasks} tasks x {result.queries} queries{family}, "
        f"seed {result.seed}, {result.seconds:.0f} s",
        soft_wrap=True,
    )
    table = Table(show_header=False)
    table.add_row("accuracy", percent(result.accuracy, result.ci95), style="bold")
    for name, control in result.controls.items():
        assert control["accuracy"] is not None
        assert control["difference"] is not None
        table.add_row(
            f"  {CONTROL_NAMES.get(name, f'control: {name}')}",
            percent(control["accuracy"], control["ci95"]),
            f"difference {points(control['difference'], control['difference_ci95'])}",
        )
    table.add_row("calibration error", percent(result.calibration_error))
    out.print(table)
    for note in result.notes:
        out.print(note, soft_wrap=True)
    classes = Table("class", "accuracy", "most often mistaken for")
    for name, share in sorted(result.per_class.items(), key=lambda item: item[1]):
        own = result.class_names.index(name)
        row = [0 if k == own else count for k, count in enumerate(result.confusion[own])]
        wrong = result.class_names[row.index(max(row))] if max(row) else "-"
        classes.add_row(name, percent(share), wrong)
    out.print(classes)
