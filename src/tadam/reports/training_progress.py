"""A training run on the terminal: one live line, a line for every validation, and an estimate."""

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from tadam.reports.terminal import percent

if TYPE_CHECKING:
    from tadam.training.estimate import Estimate


class TerminalReporter:
    """Shows loss, few-shot and auxiliary accuracy, alpha, images/s and time left."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None

    def _show(self, done: int, total: int, what: str = "") -> None:
        if self._progress is None:
            self._progress = Progress(
                BarColumn(bar_width=20),  # shrinks on a narrow terminal
                MofNCompleteColumn(table_column=Column(no_wrap=True)),
                TextColumn("{task.description}", markup=False),
                TimeRemainingColumn(table_column=Column(no_wrap=True)),
                console=self._console,
                transient=True,
                disable=not self._console.is_terminal,
            )
            self._task = self._progress.add_task("", total=total)
            self._progress.start()
        self._progress.update(self._task, completed=done, total=total)
        if what:
            self._progress.update(self._task, description=what)

    def reading(self, done: int, total: int) -> None:
        self._show(done, total, "images read")

    def evaluating(self, done: int, total: int) -> None:
        self._show(done, total, "test tasks")

    def start(self, step: int, steps: int) -> None:
        self.stop()
        if step:
            self._console.print(
                f"resuming after step {step} of {steps}" if step < steps else "already trained"
            )
        self._steps = steps
        self._show(step, steps)

    def step(self, step: int, record: dict[str, Any] | None) -> None:
        self._show(step, self._steps, self._numbers(record) if record else "")

    def _numbers(self, record: dict[str, Any]) -> str:
        numbers = ""
        if "loss" in record:  # absent while pretraining
            numbers = f"loss {record['loss']:.3f}  acc {100 * record['accuracy']:.0f}%"
        if "auxiliary_accuracy" in record:
            numbers += f"  aux {100 * record['auxiliary_accuracy']:.0f}%"
        if "alpha" in record:
            numbers += f"  alpha {record['alpha']:.3g}"
        return f"{numbers}  {record['images_per_second']:.0f} img/s"

    def validated(self, record: dict[str, Any], best: bool) -> None:
        accuracy = percent(record["val_accuracy"], record["val_ci95"])
        self._console.print(
            f"step {record['step']:>6}  validation {accuracy}" + ("  best so far" if best else "")
        )

    def stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def duration(seconds: float) -> str:
    """A duration such as `45 s`, `3.5 min` or `4 h 12 min`."""
    if seconds < 100:
        return f"{seconds:.{0 if seconds >= 10 else 2}f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.1f} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min"


def print_estimate(console: Console, result: "Estimate") -> None:
    """Prints the estimated time of a run, and what it consists of."""
    table = Table("what", "how many", "each", "total")
    for what, count, seconds in (
        ("few-shot updates", result.steps, result.step_seconds),
        ("auxiliary updates", result.auxiliary_updates, result.auxiliary_seconds),
        ("validations", result.validations, result.validation_seconds),
    ):
        table.add_row(what, str(count), duration(seconds), duration(count * seconds))
    console.print(table)
    memory = f"{result.peak_bytes / 1e9:.1f} GB" if result.peak_bytes else "unknown"
    console.print(f"about {duration(result.seconds)} here ({result.device}); peak memory {memory}")
    if result.patience:
        console.print(
            f"{result.patience} validations without a new best would end the run sooner",
        )
