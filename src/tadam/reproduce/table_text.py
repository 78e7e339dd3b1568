"""A table of results as text: columns for a terminal, Markdown, and the notes under it."""

from collections.abc import Callable, Sequence
from statistics import fmean

from tadam.reproduce.ablations import ABLATIONS
from tadam.reproduce.experiments import CURVES, ROWS
from tadam.reproduce.published import seen, snell, table1_sources
from tadam.reproduce.result import RunResult
from tadam.reproduce.table1 import network_name
from tadam.reproduce.tables import Line, MeanAccuracy, ResultTable

NOT_RUN = "not run"


def _or(value: object | None, text: str = "–") -> str:
    return text if value is None else str(value)


def _ours(line: Line) -> str:
    if not line.diverged:
        return _or(line.ours, NOT_RUN)
    return "diverged" if line.ours is None else f"{line.ours} and {len(line.diverged)} diverged"


def _difference(line: Line) -> str:
    return "–" if line.difference is None else f"{100 * line.difference:+.1f}"


def _alphas(line: Line) -> str:
    return ", ".join(f"{run.alpha:.3g}" for run in line.runs if run.alpha is not None) or "–"


def _minutes(line: Line) -> str:
    return "–" if line.minutes is None else f"{line.minutes:.1f}"


def _last(line: Line, text: Callable[[RunResult], str]) -> str:
    """What its last run says; the others have the same recipe."""
    return text(line.runs[-1]) if line.runs else "–"


def _mean(line: Line, measured: Callable[[RunResult], float | None], digits: int) -> str:
    """Mean over its runs."""
    found = [value for run in line.runs if (value := measured(run)) is not None]
    return f"{fmean(found):.{digits}f}" if found else "–"


#: Column -> its text, by experiment.
COLUMNS: dict[str, dict[str, Callable[[Line], str]]] = {
    "table1": {
        "row": lambda line: line.cell.row,
        "shots": lambda line: str(line.cell.shot),
        "network": lambda line: _last(line, lambda run: network_name(run.settings)),
        "parameters": lambda line: _last(line, lambda run: f"{run.parameters or 0:,}"),
        "mini-ImageNet": lambda line: _or(line.on_mini_imagenet),
        "published": lambda line: _or(line.published),
        "ours": lambda line: _or(line.ours, NOT_RUN),
        "diff": _difference,
        "together": lambda line: _last(
            line, lambda run: "yes" if run.sees_queries_together else "no"
        ),
        "train min": lambda line: _mean(line, lambda run: run.training_minutes, digits=1),
        "ms/task": lambda line: _mean(line, lambda run: run.task_milliseconds, digits=0),
    },
    "table2": {
        "row": lambda line: line.cell.row,
        "trained on": lambda line: f"{line.cell.train_way}-way",
        "published": lambda line: _or(line.published),
        "ours": lambda line: _or(line.ours, NOT_RUN),
        "diff": _difference,
        "alpha": _alphas,
        "min": _minutes,
    },
    "table3": {
        "row": lambda line: line.cell.row,
        "shots": lambda line: str(line.cell.shot),
        "published": lambda line: _or(line.published),
        "ours": lambda line: _or(line.ours, NOT_RUN),
        "diff": _difference,
        "TC off": lambda line: _or(line.unconditioned),
        "min": _minutes,
    },
    "figure4": {
        "alpha": lambda line: f"{line.cell.alpha:g}",
        "validation": lambda line: _or(line.validation, NOT_RUN),
        "test": lambda line: _or(line.ours, NOT_RUN),
        "test, TC off": lambda line: _or(line.unconditioned),
        "min": _minutes,
    },
    "omniglot": {
        "row": lambda line: line.cell.row,
        "Snell et al.": lambda line: snell(line.cell.row),
        "ours": lambda line: _or(line.ours, NOT_RUN),
        "validation": lambda line: _or(line.validation),
        "min": _minutes,
    },
}


COLUMNS["figure4-no-ten"] = {
    name: text for name, text in COLUMNS["figure4"].items() if name != "test, TC off"
}
COLUMNS |= {
    name: {
        "row": lambda line: line.cell.row,
        "shots": lambda line: str(line.cell.shot),
        "published": lambda line: _or(line.published),
        "ours": _ours,
        "diff": _difference,
        "validation": lambda line: _or(line.validation),
        "TC off": lambda line: _or(line.unconditioned),
        "own - other": lambda line: _or(line.own_minus("other")),
        "on - off": lambda line: _or(line.own_minus("unconditioned")),
        "min": _minutes,
    }
    for name in ABLATIONS
}


#: Columns that fit on a narrow screen, of experiments that have more; files have all of them.
_NARROW = {"table1": ("row", "shots", "published", "ours", "diff", "together")}
#: From here on, a screen has room for all columns.
_WIDE = 130


def texts(table: ResultTable) -> list[list[str]]:
    """The lines as text, one cell for each of `COLUMNS`."""
    return [[text(line) for text in COLUMNS[table.experiment].values()] for line in table.lines]


def on_screen(table: ResultTable, width: int) -> tuple[list[str], list[list[str]], list[str]]:
    """What a screen of `width` characters has room for: columns, lines, and columns left out."""
    names, lines = list(COLUMNS[table.experiment]), texts(table)
    shown = names if width >= _WIDE else list(_NARROW.get(table.experiment, names))
    places = [names.index(name) for name in shown]
    cells = [[line[place] for place in places] for line in lines]
    return shown, cells, [name for name in names if name not in shown]


def notes(table: ResultTable) -> list[str]:
    """What a reader of the table has to know, a sentence or two each."""
    counts = " or ".join(str(n) for n in sorted({run.queries for run in table.runs}))
    tasks = f"{table.runs[0].tasks} tasks of {counts} queries" if counts else "random 5-way tasks"
    found = [
        f"Accuracy in % on {tasks} of the test split, with the weights chosen on validation; ± is "
        "the half-width of the 95% interval over tasks, or over runs (Student's t) if there are "
        "several; min is the time to train and test, in minutes.",
    ]
    if table.experiment == "table1":
        found = [found[0].replace("; min is the time to train and test, in minutes.", ".")]
        found += [_PROTOCOL, *table1_sources(table.dataset)]
    if table.experiment in ("table3", "figure4"):
        found.append("TC off: the same model tested with its task conditioning off.")
    if table.experiment in CURVES:
        found += [_choice(table), seen("figure4")]
    if table.experiment == "omniglot":
        found.append(seen("omniglot"))
    if table.experiment in ABLATIONS:
        found += [_ABLATED, seen(table.experiment), *_comparisons(table)]
        found += [str(run) for line in table.lines for run in line.diverged]
    if table.preset == "cpu" and table.experiment != "omniglot":
        found.append(_cpu_note(table.experiment))
    if table.changes:
        found.append(f"Changed from the preset: {', '.join(table.changes)}.")
    return found


_PROTOCOL = (
    "Each row is a method with a network of its own, so it compares both; the parameters are those "
    "of the whole model. All classes have as many queries. Together: whether a query's answer "
    "depends on the task's other queries, by batch statistics, which makes tasks easier than they "
    "are one query at a time. Ms/task: the time to learn and answer one test task on this machine, "
    "images given."
)
_ABLATED = (
    "TC off: the same model tested with its task conditioning off. Own - other: its accuracy with "
    "a task's own FiLM vectors minus that with another task's, in points, paired over tasks. "
    "On - off: likewise, minus that with conditioning off."
)


def _comparisons(table: ResultTable) -> list[str]:
    """Row against row over the seeds that both have, if there are two or more."""
    rows, found = ABLATIONS[table.experiment].rows, []
    for line in table.lines:
        against = rows[line.cell.row].against or next(iter(rows))
        for other in (one for one in table.lines if one.cell.row == against and one is not line):
            paired = line.minus(other)
            if paired is not None:
                found.append(
                    f"{line.cell.row} minus {against}, {line.cell.shot} shots, seed by seed "
                    f"({len(paired.runs)} seeds): {100 * paired.value:+.1f} ± "
                    f"{100 * paired.half:.1f} points."
                )
    return found


def _cpu_note(experiment: str) -> str:
    if experiment not in ABLATIONS:
        return _CPU[experiment]
    if ABLATIONS[experiment].table == "table2":
        return _CPU["table2"]
    steps = (
        "7,000 with pre-training" if experiment == "pretraining" else "10,000 in rows without AT"
    )
    return (
        f"The cpu preset has 16 filters and 5,000 steps, {steps}. On FC100 with 5 shots, alpha is "
        "2 in every row that has one: figure 4 chose it on validation, with the row TADAM, half "
        "the steps and one seed. The paper has 64 filters and 10,000 steps (20,000 without AT). "
        "The learning rate drops at the paper's fractions of a run."
    )


_CPU = {
    "table1": "The cpu preset is narrower or shorter than the authors' settings and changes some: "
    "see the cpu sections of src/tadam/recipes/methods. Its MAML takes one inner step from a head "
    "whose rows are alike, which moves the head alone: a prototype by dot product.",
    "table2": "The cpu preset trains for 8,000 steps, the paper for 40,000.",
    "table3": "The cpu preset has 16 filters and 5,000 steps in every row; the paper has 64 "
    "filters and 10,000 steps (20,000 without AT) on FC100, 30,000 (60,000) on mini-ImageNet. The "
    "learning rate drops at the same fractions of a run as in the paper. These depend on whether "
    "there is AT, so rows with and without it differ in more than AT.",
} | dict.fromkeys(
    CURVES, "Here the cpu preset has 16 filters and 2,500 steps, half its usual number."
)


def _choice(table: ResultTable) -> str:
    scores = [(line.validation.value, line.cell.alpha) for line in table.lines if line.validation]
    rule = "alpha is chosen on validation; the test accuracy only shows the curve"
    return (
        f"Best on validation: alpha = {max(scores)[1]:g} ({rule})."
        if scores
        else (f"{rule[0].upper()}{rule[1:]}.")
    )


def markdown(table: ResultTable, heading: str = "#") -> str:
    """The table with its notes, and every run with the command that reproduces it."""
    columns = COLUMNS[table.experiment]
    labels = ROWS[table.experiment]
    lines = [f"{heading} {table.title}", "", *notes(table), ""]
    lines += ["| " + " | ".join(columns) + " |", "|---" + "|---:" * (len(columns) - 1) + "|"]
    for cells in texts(table):
        name = labels.get(cells[0], cells[0])
        lines.append(f"| {' | '.join([name, *cells[1:]])} |")
    if table.runs:
        lines += ["", *_details(table.runs)]
    return "\n".join(lines) + "\n"


def _details(runs: Sequence[RunResult]) -> list[str]:
    lines = [
        "| run | test | validation, at step | training time | test time | date |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for run in runs:
        test = MeanAccuracy(run.accuracy, run.ci95)
        validation = MeanAccuracy(run.validation_accuracy, run.validation_ci95)
        times = f"{run.training_minutes:.1f} min | {run.evaluation_minutes:.1f} min | {run.date}"
        lines.append(
            f"| {run.cell.folder(run.seed)} | {test} | {validation}, {run.best_step} | {times} |"
        )
    machines = dict.fromkeys(_machine(run) for run in runs)
    return [*lines, "", *machines, "", "```", *(run.command for run in runs), "```"]


def _machine(run: RunResult) -> str:
    here = run.machine
    return (
        f"{here['cpu']}, {here['threads']} of {here['cores']} cores, {here['core']} core, "
        f"{here['device']}, torch {here['torch']}, tadam {run.version}."
    )
