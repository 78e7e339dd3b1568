"""Benchmark results as tables for a terminal of at least 80 columns."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from tadam.benchmarks.comparison import Change
from tadam.benchmarks.results import Measurement, Report
from tadam.benchmarks.targets import (
    AIMS,
    EVALUATION_CONDITIONED,
    EVALUATION_PLAIN,
    INFERENCE,
    MEMORY,
    MEMORY_TARGETS,
    METHOD_STEP,
    METHOD_TARGET,
    PHOTOS_TARGETS,
    SERVE_TARGETS,
    SHARES,
    STARTUP_TARGETS,
    STEP_NATIVE,
    STEP_PLAIN,
    STEP_SHARE,
    TARGETS,
)

#: Rows of the table of times: label, measurement, and the key in its raw numbers.
_ABSOLUTE = (
    ("one step, native core", STEP_NATIVE, "seconds"),
    ("one step, plain PyTorch", STEP_PLAIN, "seconds"),
    ("one step, naive", STEP_PLAIN, "naive_seconds"),
    ("evaluation, no TEN", EVALUATION_PLAIN, "seconds"),
    ("evaluation, TEN", EVALUATION_CONDITIONED, "seconds"),
    ("images, inference, ours", INFERENCE, "ours_images_per_second"),
    ("images, inference, onnxruntime", INFERENCE, "onnxruntime_images_per_second"),
)


def machine_line(report: Report) -> str:
    """What ran, and where."""
    here = report.machine
    return (
        f"{here['cpu']}, {here['threads']} of {here['cores']} cores, {here['core']} core, "
        f"torch {here['torch']}, Python {here['python']}; "
        f"fp32 GEMM {here['gemm_gflops']:.0f} GFLOP/s; {report.seconds / 60:.1f} minutes"
    )


def tables(report: Report) -> Iterator[Table | str]:
    """Everything in a report, followed by its notes."""
    if any(m.name in TARGETS for m in report.measurements):
        yield _ratios(report)
    if any(m.name in {name for _, name, _ in _ABSOLUTE} for m in report.measurements):
        yield _absolute(report)
    if any(m.name == STEP_SHARE for m in report.measurements):
        yield _growth(report)
    if any(m.name == METHOD_STEP for m in report.measurements):
        yield _methods(report)
    for m in report.measurements:
        if m.name == MEMORY:
            target = MEMORY_TARGETS.get(m.setting)
            yield f"{m.name}, {m.setting}: {m.text}" + (f", target {target:g} GB" if target else "")
        if m.name in PHOTOS_TARGETS:
            rates = {k.partition("_")[0]: v for k, v in m.raw.items() if k.endswith("_per_second")}
            shown = ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items())
            yield f"{m.name}: {m.text}, target {PHOTOS_TARGETS[m.name]:g}x (photos/s: {shown})"
        if m.part == "serve":
            target = SERVE_TARGETS.get((m.name, m.setting))
            yield f"{m.name}, {m.setting}: {m.text}" + (f", target {target:g}x" if target else "")
        if m.name in STARTUP_TARGETS:
            yield f"{m.name}: {m.text}, target {STARTUP_TARGETS[m.name]:g} s"
    yield from dict.fromkeys(
        f"{m.name}{f', {m.setting}' if m.part == 'serve' else ''}: {m.note}"
        for m in report.measurements
        if m.note
    )


def _widths(report: Report) -> list[int]:
    return [int(width) for width in report.plan["widths"]]


def _ratios(report: Report) -> Table:
    widths = _widths(report)
    table = Table(title="A step: 2 tasks, 5-way 5-shot, 32 queries each, TEN, 64 auxiliary images")
    table.add_column("what, by width", no_wrap=True)
    for column in (*map(str, widths), "target", "aim"):
        table.add_column(column, justify="right")
    for name, wanted in TARGETS.items():
        row = [report.find(name, f"width {width}") for width in widths]
        if any(row):
            cells = [_judged(m, wanted.get(w)) for m, w in zip(row, widths, strict=True)]
            table.add_row(name, *cells, _target(name, widths), _aim(name))
    return table


def _judged(m: Measurement | None, target: float | None) -> Text:
    """The value, green if it meets the target and yellow if not."""
    if m is None or m.value is None or target is None:
        return Text(m.text if m else "-")
    met = m.value <= target if m.lower_is_better else m.value >= target
    return Text(m.text, style="green" if met else "yellow")


def _target(name: str, widths: list[int]) -> str:
    """The targets at each width, such as `2.0 2.2 2.5x`."""
    numbers = [TARGETS[name].get(width) for width in widths]
    if not any(numbers):
        return ""
    percent = name in SHARES
    texts = ["-" if n is None else f"{100 * n:.0f}" if percent else f"{n:.1f}" for n in numbers]
    return " ".join(texts) + ("%" if percent else "x")


def _aim(name: str) -> str:
    aim = AIMS.get(name)
    return "" if aim is None else f"{100 * aim:g}%" if name in SHARES else f"{aim:g}x"


def _absolute(report: Report) -> Table:
    """The times and rates behind the ratios."""
    widths = _widths(report)
    table = Table(title="Times and rates, valid only for this machine")
    table.add_column("what", no_wrap=True)
    for width in widths:
        table.add_column(f"width {width}", justify="right")
    for label, name, key in _ABSOLUTE:
        row = [report.find(name, f"width {width}") for width in widths]
        if any(row):
            table.add_row(label, *(_amount(m, key) for m in row))
    return table


def _amount(m: Measurement | None, key: str) -> str:
    """A raw time, the shortest if there are several, or a rate."""
    value = m.raw.get(key) if m else None
    if value is None:
        return "-"
    if key.endswith("per_second"):
        return f"{value:.0f}/s"
    seconds = min(value) if isinstance(value, list) else value
    return f"{seconds:.1f} s" if seconds >= 10 else f"{1000 * seconds:.0f} ms"


def _growth(report: Report) -> Table:
    base = report.plan["base"]
    table = Table(
        title=(
            f"How the cost of a step grows from width {base['width']}, "
            f"{base['image_size']} pixels, {base['way']} ways, "
            f"{base['shot']} shots, {base['queries']} queries"
        )
    )
    table.add_column("what differs")
    for column in ("step", "cost", "arithmetic", "of GEMM rate"):
        table.add_column(column, justify="right")
    rows = [m for m in report.measurements if m.name == STEP_SHARE]
    for m in rows:
        table.add_row(
            m.setting,
            f"{1000 * m.raw['seconds']:.0f} ms",
            f"{m.raw['seconds'] / rows[0].raw['seconds']:.2f}x",
            f"{m.raw['flops'] / rows[0].raw['flops']:.2f}x",
            m.text,
        )
    return table


def _methods(report: Report) -> Table:
    table = Table(
        title="A method's step: 4 tasks, 5-way 5-shot, 25 queries each, FC100's cpu recipe"
    )
    table.add_column("method")
    for column in ("ours", "task after task", "ratio", "target"):
        table.add_column(column, justify="right")
    for m in report.measurements:
        if m.name == METHOD_STEP:
            times = (_amount(m, "seconds"), _amount(m, "naive_seconds"))
            table.add_row(m.setting, *times, _judged(m, METHOD_TARGET), f"{METHOD_TARGET:g}x")
    return table


def comparison_table(changes: list[Change]) -> Table:
    """Old, new and their ratio, highlighting anything more than 10% worse."""
    table = Table(title="Compared with the earlier run")
    table.add_column("what")
    table.add_column("where")
    for column in ("old", "new", "new / old", ""):
        table.add_column(column, justify="right", no_wrap=True)
    styles = {"worse": "bold red", "better": "green", "": ""}
    for change in changes:
        old, new, verdict = change.old, change.new, change.verdict
        ratio, style = f"{change.ratio:.2f}", styles[verdict]
        table.add_row(new.name, new.setting, old.text, new.text, ratio, verdict, style=style)
    return table
