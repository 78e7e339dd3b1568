"""`python -m benchmarks`: our training step against the naive one, its data share and its memory.

python -m benchmarks                       # about three minutes; keep the machine idle meanwhile
python -m benchmarks --widths 16 --rounds 3 --json bench.json
"""

import json
import statistics
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.measure import (
    Setup,
    StepTimes,
    as_record,
    data_share,
    machine,
    peak_bytes,
    step_times,
)

TARGET_RATIO = 1.3
TARGET_GIGABYTES = 6.0


def main(
    widths: Annotated[str, typer.Option(help="Filters of the first block.")] = "16,32,64",
    rounds: Annotated[int, typer.Option(min=1, help="Turns of ours and naive.")] = 5,
    seconds: Annotated[float, typer.Option(min=0, help="Least length of a turn.")] = 2.0,
    threads: Annotated[int, typer.Option(min=0, help="0: as PyTorch chooses.")] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write results here.")] = None,
) -> None:
    """Compares our training step with a naive one on this machine."""
    threads = threads or torch.get_num_threads()
    try:
        chosen = [int(width) for width in widths.split(",")]
    except ValueError:
        raise typer.BadParameter(f"must look like 16,32,64, got {widths!r}") from None
    console = Console()
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console
    ) as progress:
        bar = progress.add_task("", total=len(chosen) * (2 * rounds + 3) + 2)
        times, shares = [], {}
        for width in chosen:
            progress.update(bar, description=f"width {width}, 32x32")
            setup = Setup(width, threads)
            times.append(step_times(setup, rounds, seconds, lambda: progress.advance(bar)))
            progress.update(bar, description=f"width {width}, data")
            shares[width] = data_share(Setup(width, threads, augmented=True), seconds)
            progress.advance(bar)
        progress.update(bar, description="memory, 84x84")
        gigabytes = peak_bytes(Setup(64, threads, image_size=84, images_per_class=40)) / 1e9
        progress.update(bar, completed=progress.tasks[0].total)
    here = machine(threads)
    console.print(_table(times, shares, here))
    console.print(
        f"peak memory of a width-64 step on 84x84 images: {gigabytes:.2f} GB "
        f"(target: under {TARGET_GIGABYTES:g})"
    )
    if json_file:
        record = {
            "machine": here,
            "steps": [as_record(t) for t in times],
            "data_share": shares,
            "peak_gigabytes": gigabytes,
        }
        json_file.write_text(json.dumps(record, indent=2) + "\n")


def _table(times: list[StepTimes], shares: dict[int, float], here: dict[str, object]) -> Table:
    table = Table(
        title="One training step: 2 tasks, 5-way 5-shot, 32 queries each, TEN, 64 auxiliary images",
        caption=(
            f"{here['core']}, {here['cpu']}, {here['threads']} of {here['cores']} cores, "
            f"torch {here['torch']}"
        ),
    )
    for column in ("width", "ours", "naive", f"ratio (target {TARGET_RATIO})", "of it data"):
        table.add_column(column, justify="right")
    for t in times:
        table.add_row(
            str(t.width),
            f"{1000 * statistics.median(t.ours):.0f} ms",
            f"{1000 * statistics.median(t.naive):.0f} ms",
            f"{t.ratio:.2f}x",
            f"{100 * shares[t.width]:.1f}%",
        )
    return table


if __name__ == "__main__":
    typer.run(main)
