"""The charts of a reproduction: rows against the published ones, curves of alpha, box plots."""

from pathlib import Path
from typing import TYPE_CHECKING

from tadam import plots
from tadam.figure import COLOURS, new_figure, save_png, style
from tadam.reproduce.tables import Estimate, Line, ResultTable

if TYPE_CHECKING:
    pass


def draw_table(table: ResultTable, path: Path) -> None:
    """Writes the table's chart: a curve for figure 4, else dots with intervals."""
    if table.experiment == "figure4":
        _draw_curve(table, path)
    else:
        _draw_rows(table, path)


def _draw_curve(table: ResultTable, path: Path) -> None:
    done = [line for line in table.lines if line.ours]
    alphas = [line.cell.alpha for line in done]
    series = {}
    for name, attribute in (("validation", "validation"), ("test", "ours")):
        found: list[Estimate] = [getattr(line, attribute) for line in done]
        series[name] = (alphas, [one.value for one in found], [one.half for one in found])
    figure = plots.curve_with_intervals(
        series,
        "alpha (unsquared Euclidean)",
        f"{done[0].cell.shot}-shot accuracy",
        title=table.title,
        logx=True,
        percent=True,
        mark_best=True,
    )
    save_png(figure, path)


def _draw_rows(table: ResultTable, path: Path) -> None:
    figure, (axes,) = new_figure(height=110 + 44 * len(table.lines))
    names = [_name(table, line) for line in table.lines]
    with style():
        sides = (("published", 0.13, COLOURS[1], "s"), ("ours", -0.13, COLOURS[0], "o"))
        for what, shift, colour, marker in sides:
            found = [(i, one) for i, line in enumerate(table.lines) if (one := getattr(line, what))]
            if not found:
                continue
            axes.errorbar(
                [100 * one.value for _, one in found],
                [i - shift for i, _ in found],
                xerr=[100 * one.half for _, one in found],
                fmt=marker,
                color=colour,
                ms=5,
                elinewidth=1.2,
                capsize=3,
                label=what,
            )
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.grid(axis="x")
        axes.grid(False, axis="y")
        axes.margins(x=0.08)
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderpad=0)
    plots.label_axes(axes, "test accuracy, %", "", title=table.title)
    save_png(figure, path)


def _name(table: ResultTable, line: Line) -> str:
    cell = line.cell
    if table.experiment == "table2":
        return f"{cell.row}, {cell.train_way}-way"
    return f"{cell.row}, {cell.shot}-shot" if table.experiment == "table3" else cell.row
