"""How long a reproduction will take here: a few trial steps of each row that has no result yet."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tadam.config import Config
from tadam.reproduce.diverged import load_diverged
from tadam.reproduce.experiments import Request
from tadam.reproduce.result import load_result
from tadam.training.estimate import estimate


@dataclass(frozen=True)
class RunEstimate:
    """A run of a reproduction, its steps, and the time it needs; none if it is finished."""

    name: str
    steps: int
    seconds: float


def estimate_runs(
    request: Request,
    out: Path,
    device: str = "auto",
    trial_seconds: float = 2.0,
    on_run: Callable[[str], object] | None = None,
) -> list[RunEstimate]:
    """Estimates the training time of each run; seeds of a row take the same.

    Args:
        request: What to reproduce.
        out: Reproduction folder, in which finished runs are looked for.
        device: auto, cpu, cuda or mps.
        trial_seconds: Time to spend on trial steps of each kind.
        on_run: Called with the name of each run that is tried.
    """
    known: dict[Config, float] = {}
    found = []
    for cell in request.cells():
        for seed in request.seeds:
            config, name = request.config(cell, seed), cell.folder(seed)
            same = replace(config, run=replace(config.run, seed=0))
            folder = out / request.stem / name
            if load_result(folder) is not None or load_diverged(folder) is not None:
                found.append(RunEstimate(name, config.schedule.episodes, 0.0))
                continue
            if same not in known:
                if on_run:
                    on_run(name)
                known[same] = estimate(same, device=device, trial_seconds=trial_seconds).seconds
            found.append(RunEstimate(name, config.schedule.episodes, known[same]))
    return found
