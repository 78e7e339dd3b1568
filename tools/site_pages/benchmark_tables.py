"""The stored run of `tadam bench` as tables, from docs/bench.json."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

from site_pages.markdown_tables import markdown_table

BENCH = Path(__file__).parents[2] / "docs" / "bench.json"
_TITLES = {
    "gemm": "Share of the machine's matrix product",
    "step": "A training step",
    "data": "Sampling and augmentation",
    "evaluation": "Evaluation",
    "inference": "Inference",
    "prediction": "Prediction and fit",
    "scaling": "How the cost of a step grows",
    "memory": "Memory",
    "startup": "Start-up",
}
_UNITS = {"share": "share", "x": "times", "GB": "GB", "s": "s"}


def _value(measurement: dict[str, Any]) -> str:
    value, unit = measurement["value"], measurement["unit"]
    if unit == "share":
        return f"{100 * value:.1f} %"
    return f"{value:.2f} {_UNITS.get(unit, unit)}"


def benchmark_tables() -> str:
    """The machine, and a table for each part of the run."""
    run = json.loads(BENCH.read_text(encoding="utf-8"))
    here = run["machine"]
    parts = [
        f"{here['cpu']}, {here['threads']} of {here['cores']} cores, {here['core']} core, "
        f"torch {here['torch']}, Python {here['python']}; {here['gemm_gflops']:.0f} GFLOP/s in a "
        f"matrix product of 32-bit floats; the run took {run['seconds'] / 60:.1f} minutes.\n"
    ]
    for part, members in groupby(run["measurements"], lambda m: m["part"]):
        rows = [
            (m["name"], m["setting"], _value(m), "less" if m["lower_is_better"] else "more")
            for m in members
        ]
        head = ("what", "setting", "value", "better is")
        parts.append(f"## {_TITLES.get(part, part)}\n\n{markdown_table(head, rows)}\n")
    return "\n".join(parts)
