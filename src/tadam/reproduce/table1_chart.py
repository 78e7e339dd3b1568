"""The chart of Table 1: the methods below each other, a panel for each number of shots."""

from pathlib import Path
from typing import TYPE_CHECKING

from tadam.reports.figure import INK, PALETTE, new_figure, save_png, style
from tadam.reproduce.experiments import ROWS
from tadam.reproduce.table1 import network_name
from tadam.reproduce.tables import Line, ResultTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SEEN_TOGETHER = "ours, queries seen together"


def draw_table1(table: ResultTable, path: Path) -> None:
    """Draws every run with its interval over tasks, and what was published for this data set."""
    shots = sorted({line.cell.shot for line in table.lines})
    rows = list(dict.fromkeys(line.cell.row for line in table.lines))
    figure, (first,) = new_figure(width=330 + 230 * len(shots), height=130 + 40 * len(rows))
    with style():
        first.remove()
        panels = figure.subplots(1, len(shots), sharey=True, squeeze=False)[0]
        for axes, shot in zip(panels, shots, strict=True):
            lines = [line for line in table.lines if line.cell.shot == shot]
            for line in lines:
                _draw_line(axes, rows.index(line.cell.row), line)
            axes.set_title(f"{shot} shot{'s' if shot > 1 else ''}")
            axes.set_xlabel("test accuracy, %")
            axes.grid(axis="x")
            axes.grid(False, axis="y")
            axes.margins(x=0.1)
        panels[0].set_yticks(range(len(rows)), [_name(table, row) for row in rows])
        panels[0].set_ylim(len(rows) - 0.5, -0.5)
        handles = {
            label: handle
            for axes in panels
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        if handles:
            figure.legend(
                handles.values(), handles.keys(), loc="outside lower right", ncols=len(handles)
            )
        figure.suptitle(
            f"Table 1{table.circumstances}", x=0.01, ha="left", weight="bold", color=INK
        )
    save_png(figure, path)


def _draw_line(axes: "Axes", y: int, line: Line) -> None:
    """A method's published accuracy above its own runs."""
    if line.published:
        axes.errorbar(
            100 * line.published.value,
            y - 0.16,
            xerr=100 * line.published.half,  # no bar if it is NaN
            fmt="s",
            color=PALETTE[1],
            ms=5,
            elinewidth=1.2,
            capsize=3,
            label="published",
        )
    for n, run in enumerate(line.runs):
        together = bool(run.sees_queries_together)
        axes.errorbar(
            100 * run.accuracy,
            y + 0.16 + 0.2 * n / len(line.runs),
            xerr=100 * run.ci95,
            fmt="o",
            color=PALETTE[0],
            markerfacecolor="white" if together else PALETTE[0],
            ms=5,
            elinewidth=1.2,
            capsize=3,
            label=_SEEN_TOGETHER if together else "ours",
        )


def _name(table: ResultTable, row: str) -> str:
    """A method, and its network if it has been run."""
    name = ROWS[table.experiment].get(row, row)
    runs = [run for line in table.lines if line.cell.row == row for run in line.runs]
    return f"{name}\n{network_name(runs[-1].settings)}" if runs else name
