"""The comparison on photos as tables to read: accuracies, leads, trust and times."""

from pathlib import Path

from tadam.reports.terminal import percent, points
from tadam.reproduce.photos import CONTROL, OURS, PhotoCell, PhotoResults
from tadam.system.files import write_text

_SHORT = {
    OURS: "ours",
    "nearest prototype, Euclidean": "prototype, Euclidean",
    "nearest prototype, cosine": "prototype, cosine",
    "k nearest neighbours": "k-NN",
    "logistic regression": "logistic regression",
    "shrinkage LDA": "shrinkage LDA",
    "ridge": "ridge",
    CONTROL: "logistic regression, our features",
}


def _task(cell: PhotoCell) -> str:
    return f"{cell.source}, {cell.way}-way {cell.shot}-shot"


def best_rival(cell: PhotoCell) -> str:
    """The most accurate of the others; the control is not one of them."""
    rivals = {n: a[0] for n, a in cell.accuracy.items() if n not in (OURS, CONTROL)}
    return max(rivals, key=lambda name: rivals[name])


def accuracy_columns() -> list[str]:
    """The head of `accuracy_rows`."""
    return ["task", "tasks", *_SHORT.values(), "lead over the best"]


def accuracy_rows(results: PhotoResults) -> list[list[str]]:
    """Accuracy of every method, and our lead over the best of the others, paired by task."""
    rows = []
    for cell in results.cells:
        shown = [
            percent(cell.accuracy[name][0]) if name in cell.accuracy else "-" for name in _SHORT
        ]
        best = best_rival(cell)
        rows.append([_task(cell), str(cell.tasks), *shown, points(*cell.lead[best])])
    cells = results.cells
    means = []
    for name in _SHORT:
        found = [c.accuracy[name][0] for c in cells if name in c.accuracy]
        means.append(percent(sum(found) / len(found)) if len(found) == len(cells) else "-")
    lead = sum(c.lead[best_rival(c)][0] for c in cells) / len(cells)
    return [*rows, ["mean of all", str(sum(c.tasks for c in cells)), *means, points(lead)]]


SUMMARY_COLUMNS = ["task", "tasks", "ours", "best other", "it has", "lead"]


def summary_rows(results: PhotoResults) -> list[list[str]]:
    """Ours and the best of the others in each cell."""
    rows = []
    for cell in results.cells:
        best = best_rival(cell)
        ours, theirs = percent(*cell.accuracy[OURS]), percent(cell.accuracy[best][0])
        lead = points(*cell.lead[best])
        rows.append([_task(cell), str(cell.tasks), ours, _SHORT[best], theirs, lead])
    return rows


TRUST_COLUMNS = ["task", "tasks", "accuracy", "calibration error", "AUROC", "kept", "caught"]


def trust_rows(results: PhotoResults) -> list[list[str]]:
    """How far our probabilities and "none of these" can be trusted."""
    return [
        [
            _task(c),
            str(c.tasks),
            percent(*c.accuracy[OURS]),
            percent(c.calibration_error),
            "-" if c.auroc is None else percent(c.auroc),
            percent(c.kept),
            "-" if c.caught is None else percent(c.caught),
        ]
        for c in results.cells
    ]


def time_columns() -> list[str]:
    """The head of `time_rows`."""
    return ["task", *(short for name, short in _SHORT.items() if name != CONTROL)]


def time_rows(results: PhotoResults) -> list[list[str]]:
    """Milliseconds to fit and predict one task, the median of all."""
    return [
        [
            _task(c),
            *(
                f"{1000 * c.seconds[name]:.0f}" if name in c.seconds else "-"
                for name in _SHORT
                if name != CONTROL
            ),
        ]
        for c in results.cells
    ]


def _markdown(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def write_tables(file: Path, results: PhotoResults, alone: bool = False) -> None:
    """The tables as Markdown; only that of trust if ours was measured alone."""
    made = results.machine
    head = (
        f"Model {results.model}, seed {results.seed}, {results.minutes:.0f} minutes, "
        f"{made['cores']} cores of {made['cpu']}.\n\n"
    )
    trust = _markdown(TRUST_COLUMNS, trust_rows(results))
    if alone:
        write_text(file, head + trust)
        return
    accuracy = _markdown(accuracy_columns(), accuracy_rows(results))
    times = _markdown(time_columns(), time_rows(results))
    legend = "Milliseconds to fit and predict a task:\n\n"
    write_text(file, f"{head}{accuracy}\n{trust}\n{legend}{times}")
