"""The curve of a sweep: validation accuracy against alpha."""

from dataclasses import replace

from tadam.reports import plots
from tadam.reports.figure import available, save_png
from tadam.training.sweep import SweepResult, write_sweep


def draw_sweep(result: SweepResult) -> SweepResult:
    """Draws `alpha.png` into a sweep's folder and records it; does nothing without matplotlib."""
    if not available():
        return result
    alphas, accuracies, intervals = zip(
        *((p.alpha, p.accuracy, p.ci95) for p in result.points), strict=True
    )
    figure = plots.curve_with_intervals(
        {result.dataset: (alphas, accuracies, intervals)},
        f"alpha ({result.distance})",
        "validation accuracy",
        logx=True,
        percent=True,
        mark_best=[result.dataset],
    )
    drawn = replace(result, plot=result.folder / "alpha.png")
    save_png(figure, result.folder / "alpha.png")
    write_sweep(drawn)
    return drawn
