"""Startup time: importing tadam, and showing the command line's help."""

import statistics
import subprocess
import sys
import time

from tadam.benchmarks.results import SECONDS, Measurement
from tadam.benchmarks.targets import HELP, IMPORT
from tadam.errors import RunFailed

_IMPORT = """
import time
start = time.perf_counter()
import torch
between = time.perf_counter()
import tadam
tadam.FewShotClassifier
print(between - start, time.perf_counter() - between)
"""


def _run(*arguments: str) -> str:
    """Runs a fresh Python and returns its output."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RunFailed(f"python {' '.join(arguments)} failed: {done.stderr.strip()[-200:]}")
    return done.stdout


def import_seconds() -> tuple[float, float]:
    """Import time of torch, then of tadam with its classifier, more than plain `import tadam`."""
    torch, tadam = map(float, _run("-c", _IMPORT).split())
    return torch, tadam


def help_seconds() -> float:
    """Time of `tadam --help`, including Python's own startup."""
    start = time.perf_counter()
    _run("-m", "tadam", "--help")
    return time.perf_counter() - start


def measure(rounds: int) -> list[Measurement]:
    """The median of each, after a round that fills the disk cache."""
    imports = [import_seconds() for _ in range(rounds + 1)][1:]
    helps = [help_seconds() for _ in range(rounds + 1)][1:]
    torch, tadam = (statistics.median(times) for times in zip(*imports, strict=True))
    raw = {"seconds": [t for _, t in imports], "torch_seconds": torch, "of_torch": tadam / torch}
    return [
        Measurement("startup", IMPORT, "", tadam, SECONDS, lower_is_better=True, raw=raw),
        Measurement(
            "startup",
            HELP,
            "",
            statistics.median(helps),
            SECONDS,
            lower_is_better=True,
            raw={"seconds": helps},
        ),
    ]
