"""A training run on the terminal: one live line, and a line for every validation."""

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class TerminalReporter:
    """Shows loss, few-shot and auxiliary accuracy, alpha, images/s and time left."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def start(self, step: int, steps: int) -> None:
        if step:
            self._console.print(
                f"going on after step {step} of {steps}" if step < steps else "already trained"
            )
        self._progress = Progress(
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._progress.add_task("", completed=step, total=steps)
        self._progress.start()

    def step(self, step: int, record: dict[str, Any] | None) -> None:
        self._progress.update(self._task, completed=step)
        if record is None:
            return
        numbers = f"loss {record['loss']:.3f}  acc {100 * record['accuracy']:.0f}%"
        if "auxiliary_accuracy" in record:
            numbers += f"  aux {100 * record['auxiliary_accuracy']:.0f}%"
        numbers += f"  alpha {record['alpha']:.3g}  {record['images_per_second']:.0f} img/s"
        self._progress.update(self._task, description=numbers)

    def validated(self, record: dict[str, Any], best: bool) -> None:
        interval = f" ± {100 * record['val_ci95']:.1f}" if record["val_ci95"] is not None else ""
        self._console.print(
            f"step {record['step']:>6}  validation {100 * record['val_accuracy']:.1f}{interval} %"
            + ("  [green]best so far[/green]" if best else "")
        )

    def stop(self) -> None:
        self._progress.stop()
