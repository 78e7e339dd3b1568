"""The result of one run: its numbers, and everything needed to reproduce them."""

import json
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tadam.errors import UserError
from tadam.reproduce.ablations import ABLATIONS
from tadam.reproduce.experiments import CURVES, Cell, Request
from tadam.system.files import write_text
from tadam.system.untrusted_json import parse_json

_RESULT = "result.json"


@dataclass(frozen=True)
class RunResult:
    """One training run, its weights chosen on validation and tested once; accuracies are fractions.

    Attributes:
        dataset: The data set that was actually trained and tested on.
        changes: Settings that differ from the preset.
        settings: The whole recipe.
        accuracy: On the test split, mean over tasks.
        accuracy_unconditioned: The same tasks with conditioning off; None for a model without TEN.
        best_step: Step with the highest validation accuracy.
        alpha: Alpha of the tested weights; None for a method without one.
        training_minutes: Training time, including time before a resume.
        command: Reproduces this run.
        machine: See `tadam.system.machine`; also names the device.
        controls: See `Evaluation`; absent from results of 0.1.0.
        parameters: Trained numbers of the model; this and what follows in Table 1 only.
        sees_queries_together: See `Method`.
        task_milliseconds: Median time to answer a single test task.
    """

    experiment: str
    dataset: str
    preset: str
    row: str
    shot: int
    train_way: int
    seed: int
    changes: tuple[str, ...]
    settings: dict[str, Any]
    accuracy: float
    ci95: float
    accuracy_unconditioned: float | None
    ci95_unconditioned: float | None
    way: int
    tasks: int
    queries: int
    validation_accuracy: float
    validation_ci95: float
    best_step: int
    steps: int
    alpha: float | None
    training_minutes: float
    evaluation_minutes: float
    command: str
    machine: dict[str, Any]
    version: str
    date: str
    controls: dict[str, dict[str, float | None]] = field(default_factory=dict)
    parameters: int | None = None
    sees_queries_together: bool | None = None
    task_milliseconds: float | None = None

    @property
    def cell(self) -> Cell:
        """The row, shots and ways it belongs to."""
        return Cell(self.row, self.shot, self.train_way)

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        return {**asdict(self), "changes": list(self.changes)}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "RunResult":
        """Reads what `to_json` returned."""
        return cls(**{**fields, "changes": tuple(fields["changes"])})


def save_result(folder: Path, result: RunResult) -> None:
    """Writes a run's result into its folder, which marks the run as finished."""
    write_text(folder / _RESULT, json.dumps(result.to_json(), indent=2) + "\n")


def load_result(folder: Path) -> RunResult | None:
    """The result of a finished run; None if it is not finished."""
    path = folder / _RESULT
    if not path.exists():
        return None
    try:
        return RunResult.from_json(parse_json(path.read_bytes()))
    except (ValueError, OverflowError, TypeError, KeyError, AttributeError):
        raise UserError(
            f"{path} was not written by this version of tadam: choose another `out`"
        ) from None


def _has_shots(experiment: str) -> bool:
    return experiment in ABLATIONS and ABLATIONS[experiment].table == "table3"


def command_line(request: Request, cell: Cell, seed: int) -> str:
    """The command that makes this run alone."""
    words = ["tadam", "reproduce", request.experiment.removesuffix("-no-ten")]
    if request.experiment != "omniglot":
        words += ["--dataset", request.dataset, "--preset", request.preset]
    if request.experiment in CURVES:
        words += ["--values", f"{cell.alpha:.12g}", "--shot", str(cell.shot)]
        words += ["--no-ten"] if request.experiment == "figure4-no-ten" else []
    else:
        words += ["--rows", cell.row]
    if request.experiment == "table2":
        words += ["--train-way", str(cell.train_way)]
    if request.experiment in ("table1", "table3") or _has_shots(request.experiment):
        words += ["--shots", str(cell.shot)]
    words += ["--seeds", str(seed)]
    for change in request.changes:
        words += ["--set", change]
    if request.tasks != Request.tasks:
        words += ["--tasks", str(request.tasks)]
    return shlex.join(words)
