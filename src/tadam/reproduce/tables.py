"""Published numbers and our own side by side: rows with runs, means and intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from tadam.errors import UserError
from tadam.reproduce.diverged import DivergedRun
from tadam.reproduce.experiments import CURVES, TITLES, Cell, Request
from tadam.reproduce.published import published
from tadam.reproduce.result import RunResult
from tadam.system.untrusted_json import parse_json

#: 97.5% quantiles of Student's t for 1, 2, ... degrees of freedom.
_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)


def in_percent(value: float) -> str:
    """A fraction as `56.1`."""
    return f"{100 * value:.1f}"


@dataclass(frozen=True)
class MeanAccuracy:
    """A mean accuracy, and the half-width of its 95% interval; NaN if it is not known."""

    value: float
    half: float
    runs: tuple[float, ...] = ()

    def __str__(self) -> str:
        each = f" ({', '.join(in_percent(v) for v in self.runs)})" if len(self.runs) > 1 else ""
        interval = "" if isnan(self.half) else f" ± {in_percent(self.half)}"
        return f"{in_percent(self.value)}{interval}{each}"


def mean_accuracy(values: Sequence[float], intervals: Sequence[float]) -> MeanAccuracy:
    """One run with its interval over tasks, or the mean over runs with Student's t interval."""
    if len(values) == 1:
        return MeanAccuracy(values[0], intervals[0], tuple(values))
    freedom = len(values) - 1
    quantile = _T[freedom - 1] if freedom <= len(_T) else 1.96 + 2.7 / freedom
    return MeanAccuracy(fmean(values), quantile * stdev(values) / len(values) ** 0.5, tuple(values))


@dataclass(frozen=True)
class Line:
    """A row of a table: the published number, and our runs ordered by seed."""

    cell: Cell
    published: MeanAccuracy | None
    runs: tuple[RunResult, ...]
    diverged: tuple[DivergedRun, ...] = ()

    @property
    def ours(self) -> MeanAccuracy | None:
        """Accuracy on the test split; None before the first run."""
        return self._mean("accuracy", "ci95")

    @property
    def unconditioned(self) -> MeanAccuracy | None:
        """The same with conditioning off; None for a model without conditioning."""
        return self._mean("accuracy_unconditioned", "ci95_unconditioned")

    def own_minus(self, control: str) -> MeanAccuracy | None:
        """Accuracy with a task's own vectors minus that of a control; None if not measured."""
        found = [run.controls[control] for run in self.runs if control in run.controls]
        if not found:
            return None
        return mean_accuracy(
            [one["difference"] or 0.0 for one in found],
            [one["difference_ci95"] or 0.0 for one in found],
        )

    @property
    def validation(self) -> MeanAccuracy | None:
        """Accuracy of the chosen weights on the validation tasks that chose them."""
        return self._mean("validation_accuracy", "validation_ci95")

    def minus(self, other: "Line") -> MeanAccuracy | None:
        """Mean of our accuracy minus another row's, over the seeds that both have; two or more."""
        theirs = {run.seed: run.accuracy for run in other.runs}
        paired = [run.accuracy - theirs[run.seed] for run in self.runs if run.seed in theirs]
        if other.cell.shot != self.cell.shot or len(paired) < 2:
            return None
        return mean_accuracy(paired, [0.0] * len(paired))

    @property
    def difference(self) -> float | None:
        """Ours minus published."""
        return self.ours.value - self.published.value if self.ours and self.published else None

    @property
    def on_mini_imagenet(self) -> MeanAccuracy | None:
        """What was published for a row of Table 1 on mini-ImageNet, whatever our data set."""
        found = published("table1", "mini_imagenet", self.cell)
        return MeanAccuracy(*found) if found else None

    @property
    def minutes(self) -> float | None:
        """Mean time to train and test a run."""
        times = [run.training_minutes + run.evaluation_minutes for run in self.runs]
        return fmean(times) if times else None

    def _mean(self, value: str, half: str) -> MeanAccuracy | None:
        pairs = [(getattr(run, value), getattr(run, half)) for run in self.runs]
        found = [(v, h) for v, h in pairs if v is not None]
        return mean_accuracy(*map(list, zip(*found, strict=True))) if found else None


@dataclass(frozen=True)
class ResultTable:
    """All rows of an experiment, run or not."""

    experiment: str
    dataset: str
    preset: str
    changes: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """The table's heading."""
        return ": ".join(TITLES[self.experiment]) + self.circumstances

    @property
    def circumstances(self) -> str:
        """Data set, preset, and a curve's shots unless 5; for Omniglot all are fixed."""
        if self.experiment == "omniglot":
            return ""
        shots = {line.cell.shot for line in self.lines if self.experiment in CURVES} - {5}
        named = "".join(f", {shot} shot{'s' * (shot > 1)}" for shot in shots)
        return f", {self.dataset}, preset {self.preset}{named}"

    @property
    def runs(self) -> list[RunResult]:
        """All runs, row by row."""
        return [run for line in self.lines for run in line.runs]

    def to_json(self) -> dict[str, Any]:
        """Plain types; what follows from the runs is included for readers."""
        rows: list[dict[str, Any]] = [
            {
                "row": line.cell.row,
                "shot": line.cell.shot,
                "train_way": line.cell.train_way,
                "published": line.published and _fields(line.published),
                "ours": line.ours and _fields(line.ours),
                "difference": line.difference,
                "runs": [run.to_json() for run in line.runs],
                **({"diverged": [run.to_json() for run in line.diverged]} if line.diverged else {}),
            }
            for line in self.lines
        ]
        if self.experiment == "table1":
            for row, line in zip(rows, self.lines, strict=True):
                row["mini_imagenet"] = line.on_mini_imagenet and _fields(line.on_mini_imagenet)
        head = {"experiment": self.experiment, "dataset": self.dataset, "preset": self.preset}
        return {**head, "changes": list(self.changes), "rows": rows}


def _fields(one: MeanAccuracy) -> dict[str, float | None]:
    return {"accuracy": one.value, "ci95": None if isnan(one.half) else one.half}


def build_table(
    request: Request, runs: Sequence[RunResult] = (), diverged: Sequence[DivergedRun] = ()
) -> ResultTable:
    """A request's table: its rows, and earlier runs with other shots, ways or alphas."""
    wanted = request.all_cells()
    dataset = request.config(request.cells()[0], 0).data.name  # others may not take the changes
    seen = {*wanted, *(run.cell for run in runs), *(run.cell for run in diverged)}
    shots = tuple(sorted({cell.shot for cell in seen}))
    if request.experiment in CURVES:  # one curve
        shots = (wanted[0].shot,)
        alphas = {cell.alpha for cell in seen if cell.shot in shots}
        request = replace(request, alphas=tuple(sorted(alphas)))
    ways = tuple(sorted({cell.train_way for cell in seen}))
    cells = replace(request, shots=shots, train_ways=ways).all_cells()
    head = (request.experiment, dataset, request.preset, request.changes)
    return _table(*head, cells, runs, diverged)


def load_table(path: Path) -> ResultTable:
    """Reads what `to_json` returned."""
    try:
        stored = parse_json(path.read_bytes())
        cells = [Cell(row["row"], row["shot"], row["train_way"]) for row in stored["rows"]]
        runs = [RunResult.from_json(run) for row in stored["rows"] for run in row["runs"]]
        diverged = [DivergedRun(**run) for row in stored["rows"] for run in row.get("diverged", [])]
        head = (stored["experiment"], stored["dataset"], stored["preset"])
        return _table(*head, tuple(stored["changes"]), cells, runs, diverged)
    except (ValueError, OverflowError, TypeError, KeyError, AttributeError):
        raise UserError(f"{path} is not a table that tadam reproduce wrote") from None


def _table(
    experiment: str,
    dataset: str,
    preset: str,
    changes: tuple[str, ...],
    cells: Sequence[Cell],
    runs: Sequence[RunResult],
    diverged: Sequence[DivergedRun],
) -> ResultTable:
    lines = []
    for cell in cells:
        theirs = published(experiment, dataset, cell)
        ours = sorted((run for run in runs if run.cell == cell), key=lambda run: run.seed)
        lost = sorted((run for run in diverged if run.cell == cell), key=lambda run: run.seed)
        number = MeanAccuracy(*theirs) if theirs else None
        lines.append(Line(cell, number, tuple(ours), tuple(lost)))
    return ResultTable(experiment, dataset, preset, changes, tuple(lines))
