"""Charts of a reproduction: rows beside the published ones, and accuracy against alpha."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tadam.reports import plots
from tadam.reports.figure import PALETTE, new_figure, save_png, style
from tadam.reproduce.experiments import CURVES, ROWS, TITLES
from tadam.reproduce.table1_chart import draw_table1
from tadam.reproduce.tables import Line, MeanAccuracy, ResultTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_table(table: ResultTable, path: Path) -> None:
    """Writes the table's chart: a curve for figure 4, panels for Table 1, else dots."""
    if table.experiment == "table1":
        draw_table1(table, path)
    elif table.experiment in CURVES:
        draw_curves([table], path)
    else:
        _draw_rows(table, path)


def draw_curves(tables: Sequence[ResultTable], path: Path) -> None:
    """Writes accuracy against alpha, a panel for each table."""
    figure, panels = new_figure(height=60 + 300 * len(tables), rows=len(tables))
    for table, panel in zip(tables, panels, strict=True):
        _draw_curve(table, panel, "" if panel is not panels[-1] else "alpha (unsquared Euclidean)")
    save_png(figure, path)


def _draw_curve(table: ResultTable, panel: "Axes", xlabel: str) -> None:
    done = [line for line in table.lines if line.ours]
    alphas = [line.cell.alpha for line in done]
    series = {}
    for name, attribute in (("validation", "validation"), ("test", "ours")):
        found: list[MeanAccuracy] = [getattr(line, attribute) for line in done]
        series[name] = (alphas, [one.value for one in found], [one.half for one in found])
    plots.curve_with_intervals(
        series,
        xlabel,
        f"{done[0].cell.shot}-shot accuracy",
        title=table.title,
        logx=True,
        percent=True,
        mark_best=["validation"],
        panel=panel,
    )


def _draw_rows(table: ResultTable, path: Path) -> None:
    """Draws every run by itself, with its interval over tasks."""
    figure, (axes,) = new_figure(height=110 + 40 * len(table.lines))
    names = [
        _name(table, line) + " (diverged)" * (bool(line.diverged) and not line.runs)
        for line in table.lines
    ]
    published = [(i - 0.15, line.published) for i, line in enumerate(table.lines) if line.published]
    below = 0.15 if published else 0.0
    ours = [
        (i + below + 0.3 * n / len(line.runs), MeanAccuracy(run.accuracy, run.ci95))
        for i, line in enumerate(table.lines)
        for n, run in enumerate(line.runs)
    ]
    with style():
        sides = (
            ("published", published, PALETTE[1], "s"),
            ("ours", ours, PALETTE[0], "o"),
        )
        for what, found, colour, marker in sides:
            if found:
                axes.errorbar(
                    [100 * one.value for _, one in found],
                    [y for y, _ in found],
                    xerr=[100 * one.half for _, one in found],
                    fmt=marker,
                    color=colour,
                    ms=4,
                    elinewidth=1.2,
                    capsize=3,
                    label=what,
                )
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.grid(axis="x")
        axes.grid(False, axis="y")
        axes.margins(x=0.08)
        if any(found for _, found, _, _ in sides):
            axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderpad=0)
    title = TITLES[table.experiment][0] + table.circumstances
    plots.label_axes(axes, "test accuracy, %", "", title=title)
    save_png(figure, path)


def _name(table: ResultTable, line: Line) -> str:
    cell = line.cell
    if table.experiment == "table2":
        return f"{cell.row}, {cell.train_way}-way"
    if len({line.cell.shot for line in table.lines}) > 1 or table.experiment == "table3":
        return f"{cell.row}, {cell.shot}-shot"
    return ROWS[table.experiment][cell.row]
