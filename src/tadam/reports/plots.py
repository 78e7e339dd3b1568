"""The charts of reports and results: lines, measured curves, bars and heat maps."""

from collections.abc import Callable, Container, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tadam.reports.figure import FONT, INK, PALETTE, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_DASHES = ("-", "--", "-.", ":")


def line_chart(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    xlabel: str,
    ylabel: str,
    *,
    title: str = "",
    logx: bool = False,
    logy: bool = False,
    percent: bool = False,
    width: int = 640,
    height: int = 340,
) -> "Figure":
    """Lines by name, each (x, y); several lines are labelled at their right ends.

    `percent` shows fractions as percentages.
    """
    figure, (axes,) = new_figure(width, height)
    draw_lines(axes, series, logx=logx, logy=logy)
    label_axes(axes, xlabel, ylabel, title=title, percent=percent)
    return figure


def draw_lines(
    axes: "Axes",
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    logx: bool = False,
    logy: bool = False,
    ylim: tuple[float, float] | None = None,
) -> None:
    """Draws lines into a panel; see `line_chart`."""
    with style():
        for i, (x, y) in enumerate(series.values()):
            axes.plot(x, y, _dashes(i), color=_colour(i), marker="o" if len(x) == 1 else "")
        scale_axes(axes, logx, logy)
        if ylim:
            axes.set_ylim(*ylim)
        _name_ends(axes, {name: y[-1] for name, (_, y) in series.items() if len(y)})


def curve_with_intervals(
    series: Mapping[str, tuple[Sequence[float], Sequence[float], Sequence[float]]],
    xlabel: str,
    ylabel: str,
    *,
    title: str = "",
    logx: bool = False,
    percent: bool = False,
    mark_best: Container[str] = (),
    height: int = 360,
    panel: "Axes | None" = None,
) -> "Figure":
    """Measured points by name, each (x, y, half-width of y's interval), joined by lines.

    `mark_best` names curves whose highest point is ringed and labelled with its x; `panel` is
    where to draw, if not on a figure of its own.
    """
    axes = new_figure(height=height)[1][0] if panel is None else panel
    figure = axes.get_figure(root=True)
    assert figure is not None
    with style():
        for i, (name, (x, y, half)) in enumerate(series.items()):
            look: dict[str, Any] = {"color": _colour(i), "fmt": "o" + _dashes(i), "ms": 4}
            axes.errorbar(x, y, half, elinewidth=1, capsize=3, **look)
            if name in mark_best:
                best = int(np.argmax(y))
                axes.plot(x[best], y[best], "o", ms=11, mfc="none", mec=_colour(i), mew=1.5)
                axes.annotate(
                    f"best at {x[best]:g}",
                    (x[best], y[best] + half[best]),
                    xytext=(0, 7),
                    textcoords="offset points",
                    ha="center",
                    va="bottom",
                    color=_colour(i),
                    weight="bold",
                )
        axes.margins(x=0.06, y=0.16 if mark_best else 0.08)
        scale_axes(axes, logx, False)
        _tick_at_points(axes, sorted({v for x, _, _ in series.values() for v in x}), logx)
        _name_ends(axes, {name: y[-1] for name, (_, y, _) in series.items()})
    label_axes(axes, xlabel, ylabel, title=title, percent=percent)
    return figure


def bar_chart(
    groups: Sequence[str],
    series: Mapping[str, Sequence[float]],
    xlabel: str,
    ylabel: str,
    *,
    title: str = "",
    logy: bool = False,
    percent: bool = False,
    height: int = 320,
) -> "Figure":
    """Bars side by side: one group per name in `groups`, with one bar per series.

    On a log axis a zero has no bar.
    """
    figure, (axes,) = new_figure(height=height)
    places = np.arange(len(groups))
    thickness = 0.78 / max(len(series), 1)
    positive = [v for values in series.values() for v in values if v > 0]
    logy = logy and bool(positive)
    with style():
        for i, (name, values) in enumerate(series.items()):
            shift = (i - (len(series) - 1) / 2) * thickness
            shown = [v if v > 0 or not logy else np.nan for v in values]
            axes.bar(places + shift, shown, 0.92 * thickness, color=_colour(i), label=name)
        if logy:
            axes.set_ylim(10 ** np.floor(np.log10(min(positive)) - 0.1), 2 * max(positive))
        scale_axes(axes, False, logy)
        crowded = max(map(len, groups), default=0) * len(groups) > 70
        rotation: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(places, list(map(_shortened, groups)), **(rotation if crowded else {}))
        axes.tick_params(axis="x", length=0)
        if len(series) > 1:
            axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=len(series), borderpad=0)
    label_axes(axes, xlabel, ylabel, title=title, percent=percent)
    return figure


def heatmap(
    matrix: Sequence[Sequence[float]] | npt.NDArray[Any],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    xlabel: str = "",
    ylabel: str = "",
    title: str = "",
    cell_format: str = "g",
    width: int = 640,
) -> "Figure":
    """A matrix as squares, darker for larger values, with numbers where they fit; zeros are blank.

    Args:
        matrix: (rows, columns), no negative values.
        rows: Names down the left.
        columns: Names along the bottom.
        xlabel: What the columns are.
        ylabel: What the rows are.
        title: Heading of the chart.
        cell_format: How to write a number, as in `format(value, cell_format)`.
        width: In CSS pixels; the height follows.
    """
    values = np.asarray(matrix, dtype=np.float64)
    top = max(float(values.max(initial=0)), 1e-12)
    names = [[_shortened(name) for name in part] for part in (rows, columns)]
    longest = 7 * max((len(name) for part in names for name in part), default=0)  # pixels
    cell = min(64.0, (width - 60 - longest) / max(len(columns), 1))
    figure, (axes,) = new_figure(width, round(80 + longest + cell * len(rows)))
    texts = {place: format(value, cell_format) for place, value in np.ndenumerate(values)}
    # A digit's width is about 0.64 of the font size.
    size = min(FONT, 1.1 * cell / max([2, *map(len, texts.values())]))
    with style():
        axes.imshow(values, cmap="Blues", vmin=0, vmax=top, aspect="equal")
        for (i, j), text in texts.items():
            if size >= 4.5 and text != format(0.0, cell_format):
                ink = "white" if values[i, j] > 0.6 * top else INK
                axes.text(j, i, text, ha="center", va="center", color=ink, size=size)
        size = min(FONT, max(0.6 * cell, 6))
        stride = int(np.ceil(1.4 * size / cell))  # names closer than a line would overlap
        turned: dict[str, Any] = {}
        if longest > cell:
            turned = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
        if cell < 18:
            turned = {"rotation": 90}
        axes.set_yticks(range(0, len(rows), stride), names[0][::stride], size=size)
        axes.set_xticks(range(0, len(columns), stride), names[1][::stride], size=size, **turned)
        axes.tick_params(length=0)
        axes.grid(False)
        axes.spines[:].set_visible(False)
    label_axes(axes, xlabel, ylabel, title=title)
    return figure


def label_axes(
    axes: "Axes", xlabel: str, ylabel: str, *, title: str = "", percent: bool = False
) -> None:
    """Names a panel's axes; `percent` shows y as a percentage."""
    with style():
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        axes.set_title(title)
        if percent:
            axes.yaxis.set_major_formatter(lambda y, _: f"{round(100 * y, 6):g}%")


def _colour(i: int) -> str:
    return PALETTE[i % len(PALETTE)]


def _dashes(i: int) -> str:
    return _DASHES[i // len(PALETTE) % len(_DASHES)]


def _shortened(name: str) -> str:
    return name if len(name) <= 20 else name[:19] + "…"


def scale_axes(axes: "Axes", logx: bool, logy: bool) -> None:
    """Makes axes logarithmic, with ticks at powers of ten."""
    from matplotlib.ticker import LogLocator

    for name, axis, log in (("x", axes.xaxis, logx), ("y", axes.yaxis, logy)):
        if log:
            axes.set(**{f"{name}scale": "log"})
            axis.set_major_locator(LogLocator(numticks=7))
            axis.set_major_formatter(_power_writer(axis))
            axis.minorticks_off()


def _power_writer(axis: "Axis") -> Callable[[float, float], str]:
    """Writes 0.1, 1, 10 on a short axis and 10⁻⁸, 10⁻⁴, 10⁰ on a long one."""

    def write(value: float, _: float) -> str:
        low, high = axis.get_view_interval()
        if low > 5e-4 and high < 5e4:
            return f"{value:g}"
        exponent = str(round(np.log10(value)))
        return "10" + exponent.translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))

    return write


def _tick_at_points(axes: "Axes", points: Sequence[float], log: bool) -> None:
    """Puts x ticks at the measured points if there are few, skipping those that would overlap."""
    if not 2 <= len(points) <= 12:
        return
    place = np.log10(points) if log else np.asarray(points)
    gap = 0.05 * (place[-1] - place[0])
    kept: list[float] = []
    for i, x in enumerate(points):
        if not kept or place[i] - place[points.index(kept[-1])] >= gap:
            kept.append(x)
    axes.minorticks_off()
    axes.set_xticks(kept, [f"{x:g}" for x in kept])


def _name_ends(axes: "Axes", ends: Mapping[str, float]) -> None:
    """Writes each line's name in the right margin, as close to its end as the others allow."""
    if len(ends) < 2:
        return
    axes.autoscale_view()
    figure = axes.get_figure(root=True)
    assert figure is not None
    inches = axes.get_position().height * figure.get_size_inches()[1]
    step = 1.25 * FONT / 72 / inches  # one line of text, as a share of the axis
    to_share = axes.transData + axes.transAxes.inverted()
    x = axes.get_xlim()[1]
    wanted = [float(np.clip(to_share.transform((x, y))[1], 0, 1)) for y in ends.values()]
    order = np.argsort(wanted, kind="stable")
    places = np.array(wanted)[order]
    for _ in range(200):  # push neighbours apart until none overlap
        for a, b in pairwise(range(len(places))):
            overlap = step - (places[b] - places[a])
            if overlap > 0:
                places[a] -= overlap / 2
                places[b] += overlap / 2
    for place, i in zip(places, order, strict=True):
        axes.annotate(
            list(ends)[i],
            (1.015, place),
            xycoords="axes fraction",
            va="center",
            color=_colour(int(i)),
            annotation_clip=False,
        )
