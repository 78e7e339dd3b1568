"""What watches a run: the terminal's progress, or a tracker such as MLflow."""

from typing import Any, Protocol


class Reporter(Protocol):
    """Is told how a run goes. Inherit from it and replace what you need: nothing else is done.

    A run calls it in this order: `reading` while images are read, `start` once, `step` after every
    step, `validated` after every validation, and `stop` at the end, whatever ended it. Under
    torchrun the first process alone calls it. An exception in it ends the run.
    """

    def reading(self, done: int, total: int) -> None:
        """So many of the data set's images are read; not called if they come from the cache."""

    def start(self, step: int, steps: int) -> None:
        """Training begins, or resumes after `step` of `steps` steps."""

    def step(self, step: int, record: dict[str, Any] | None) -> None:
        """A step was made; every `run.log_every` steps with the record that `log.jsonl` gets."""

    def validated(self, record: dict[str, Any], best: bool) -> None:
        """The record of a validation, and whether it is the best so far."""

    def stop(self) -> None:
        """Training ended: done, interrupted or failed."""


def scalars(record: dict[str, Any]) -> dict[str, float]:
    """A record's plain numbers by name, without its `step`; those by layer are left out."""
    return {
        name: value
        for name, value in record.items()
        if isinstance(value, int | float) and name != "step"
    }
