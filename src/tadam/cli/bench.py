"""`tadam bench`: measure this machine's speed, keep the result, compare it with an earlier one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tadam.cli.files import check_outputs
from tadam.cli.options import Force
from tadam.errors import UserError
from tadam.reports.terminal import err, out, print_json

if TYPE_CHECKING:
    from tadam.benchmarks.results import Report
    from tadam.benchmarks.suite import Plan


def bench(
    widths: Annotated[str | None, typer.Option(help="16,32,64 by default.")] = None,
    threads: Annotated[
        int | None, typer.Option(help="As many as PyTorch chooses by default.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="Some of gemm, step, data, evaluation, inference, prediction, scaling, memory, "
            "startup, photos, serve, methods."
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Two minutes instead of ten: widths 16,32 and fewer rounds."),
    ] = False,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Keep the results; - prints them.")
    ] = None,
    compare_with: Annotated[
        Path | None, typer.Option("--compare", metavar="OLD.json", help="Show what got slower.")
    ] = None,
    force: Force = False,
) -> None:
    """Measure speed and memory as ratios; keep the machine idle while it runs."""
    file = Path(json_file) if json_file not in (None, "-") else None
    check_outputs([file] if file else [], force)

    from tadam.benchmarks.comparison import compare, differences
    from tadam.benchmarks.results import read_report
    from tadam.benchmarks.tables import comparison_table, machine_line, tables
    from tadam.system.files import write_text

    plan = _plan(widths, threads, only, quick)
    old = read_report(compare_with) if compare_with else None
    report = _measured(plan)
    console = err if json_file == "-" else out
    console.print(machine_line(report), soft_wrap=True)
    for part in tables(report):
        console.print(part)
    if old:
        for difference in differences(old, report):
            console.print(f"not the same as in {compare_with}: {difference}", soft_wrap=True)
        changes = compare(old, report)
        console.print(comparison_table(changes))
        if left_out := len(old.measurements) - len(changes):
            console.print(f"only in {compare_with}: {left_out} more measurements", soft_wrap=True)
    if file:
        write_text(file, json.dumps(report.to_json(), indent=2) + "\n")
        console.print(f"written: {file}", soft_wrap=True)
    elif json_file:
        print_json(report.to_json())


def _measured(plan: "Plan") -> "Report":
    """Runs the benchmark under a progress bar."""
    from tadam.benchmarks.suite import run

    columns = (BarColumn(20), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(
        *columns, TimeElapsedColumn(), console=err, transient=True, disable=not err.is_terminal
    ) as bar:
        task = bar.add_task("the machine's GEMM rate", total=None)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        return run(plan, show)


def _plan(widths: str | None, threads: int | None, only: str | None, quick: bool) -> "Plan":
    import torch

    from tadam.benchmarks.suite import Plan, quick_plan

    threads = torch.get_num_threads() if threads is None else threads
    plan = quick_plan(threads) if quick else Plan(threads)
    if widths is not None:
        plan = replace(plan, widths=_widths(widths))
    if only is not None:
        plan = replace(plan, parts=tuple(part.strip() for part in only.split(",")))
    return plan


def _widths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"--widths must be numbers such as 16,32,64, got {text!r}") from None
