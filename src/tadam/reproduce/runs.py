"""The runs of a reproduction: missing ones are made as jobs, finished ones are kept."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import torch

from tadam import __version__, native
from tadam.config import Config
from tadam.distributed.jobs import Cluster, Job, Watcher, open_pool, run_jobs
from tadam.errors import Diverged, Interrupted, UserError
from tadam.evaluation.tasks import Evaluation, evaluate
from tadam.models.find import find_model
from tadam.models.modelfile import load_model
from tadam.reproduce.ablations import ABLATIONS
from tadam.reproduce.diverged import DivergedRun, load_diverged, save_diverged
from tadam.reproduce.experiments import Cell, Request
from tadam.reproduce.result import RunResult, command_line, load_result, save_result
from tadam.reproduce.table1 import protocol
from tadam.system.device import choose_device
from tadam.system.files import write_text
from tadam.system.machine import machine
from tadam.system.untrusted_json import parse_json
from tadam.training.reporter import Reporter
from tadam.training.run import TrainingResult, check_recipe, check_run_folder, train
from tadam.training.run_folder import check_folder, check_results

#: Holds the settings that all runs of a folder share.
SHARED = "reproduction.json"
#: Fixes the test tasks.
_TEST_SEED = 0


class RunReporter(Reporter, Protocol):
    """Watches training and testing."""

    def evaluating(self, done: int, total: int) -> None: ...


def make_runs(
    request: Request,
    out: Path,
    *,
    device: str = "auto",
    cluster: Cluster | None = None,
    reporter: RunReporter | None = None,
    watcher: Watcher | None = None,
    on_run: Callable[[], object] | None = None,
) -> None:
    """Makes the requested runs that are missing.

    Args:
        request: What to run.
        out: Reproduction folder; the runs are in a sub-folder of it.
        device: auto, cpu, cuda or mps.
        cluster: Train on Ray instead of here, one run at a time.
        reporter: Shows each run's progress, if the runs are here.
        watcher: Shows which runs are in progress.
        on_run: Called when a run is finished.
    """
    folder = out / request.stem
    _check_shared(folder, request)
    shared = {"request": request, "device": device, "reporter": None if cluster else reporter}
    jobs: list[Job[RunResult | DivergedRun]] = []
    recipes: list[Config] = []
    for seed in request.seeds:
        for cell in request.cells():
            run = folder.absolute() / cell.folder(seed)
            config = request.config(cell, seed)
            check_run_folder(run, config, resume=True)
            if load_result(run) is None and load_diverged(run) is None:
                arguments = {"cell": cell, "seed": seed, "folder": run, **shared}
                jobs.append(Job(run.name, _make_run, arguments, run))
                recipes.append(replace(config, run=replace(config.run, seed=0)))
    for config in dict.fromkeys(recipes):
        check_recipe(config, "cpu" if cluster else device)  # the workers' device may not exist here
    ended = 0

    def keep(index: int, result: RunResult | DivergedRun) -> None:
        nonlocal ended
        ended += 1
        if on_run:
            on_run()

    if not jobs:
        return
    try:
        with open_pool(cluster, watcher) as pool:
            write_text(folder / SHARED, json.dumps(_shared(request), indent=2) + "\n")
            run_jobs(jobs, pool, keep)
    except Interrupted:
        raise Interrupted(
            f"stopped with {ended} of {len(jobs)} runs done: run the same command again to continue"
        ) from None


def stored_runs(folder: Path) -> list[RunResult]:
    """All finished runs in a folder, sorted by name."""
    runs = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    return [result for run in runs if (result := load_result(run)) is not None]


def _shared(request: Request) -> dict[str, Any]:
    changes = list(request.changes)
    return {"preset": request.preset, "changes": changes, "tasks": request.tasks}


def _check_shared(folder: Path, request: Request) -> None:
    """Refuses a folder whose runs have other settings, or that is not ours."""
    path = folder / SHARED
    if not path.exists():
        check_folder(folder)
        check_results(folder.parent, folder.name)
        return
    try:
        theirs = parse_json(path.read_bytes())
        differing = [
            f"{key}: {_text(mine)} here, {_text(theirs[key])} there"
            for key, mine in _shared(request).items()
            if mine != theirs[key]
        ]
    except (ValueError, OverflowError, TypeError, KeyError):
        raise UserError(f"{path} is damaged: choose another `out`") from None
    if differing:
        raise UserError(
            f"{folder} holds a reproduction with other settings ({'; '.join(differing)}): "
            "use the same, or choose another `out`"
        )


def _text(value: object) -> str:
    return (" ".join(map(str, value)) or "none") if isinstance(value, list) else str(value)


def _make_run(
    request: Request,
    cell: Cell,
    seed: int,
    folder: Path,
    device: str,
    reporter: RunReporter | None,
) -> RunResult | DivergedRun:
    """Trains, or resumes training, then tests the weights chosen on validation."""
    if done := load_result(folder) or load_diverged(folder):  # by another process meanwhile
        return done
    config = request.config(cell, seed)
    try:
        run = train(config, folder, resume=True, device=device, reporter=reporter)
    except Diverged as error:
        if request.experiment not in ABLATIONS:  # of these, some are about what cannot be trained
            raise
        if reporter:
            reporter.stop()
        return _diverged(request, cell, config, folder, error)
    test = evaluate(
        folder,
        config.data.name,
        "test",
        config.validation.way or config.episode.way,
        config.episode.shot,
        request.tasks,
        config.validation.queries,
        _TEST_SEED,
        device,
        reporter.evaluating if reporter else None,
        balanced=config.validation.balanced,
    )
    if reporter:
        reporter.stop()
    result = _result(request, cell, config, run, test, device)
    save_result(folder, result)
    return result


def _diverged(
    request: Request, cell: Cell, config: Config, folder: Path, error: Diverged
) -> DivergedRun:
    run = DivergedRun(
        cell.row,
        cell.shot,
        cell.train_way,
        config.run.seed,
        str(error).partition(": training diverged")[0],
        asdict(config),
        command_line(request, cell, config.run.seed),
        __version__,
        datetime.now(UTC).date().isoformat(),
    )
    save_diverged(folder, run)
    return run


def _result(
    request: Request, cell: Cell, config: Config, run: TrainingResult, test: Evaluation, device: str
) -> RunResult:
    model, _ = load_model(find_model(run.folder))
    measured = (
        protocol(model, config, choose_device(device)) if request.experiment == "table1" else {}
    )
    assert test.ci95 is not None  # there are two tasks or more
    return RunResult(
        experiment=request.experiment,
        dataset=config.data.name,
        preset=request.preset,
        row=cell.row,
        shot=cell.shot,
        train_way=cell.train_way,
        seed=config.run.seed,
        changes=request.changes,
        settings=asdict(config),
        accuracy=test.accuracy,
        ci95=test.ci95,
        accuracy_unconditioned=test.accuracy_unconditioned,
        ci95_unconditioned=test.ci95_unconditioned,
        way=test.way,
        tasks=test.tasks,
        queries=test.queries,
        validation_accuracy=run.best_accuracy,
        validation_ci95=run.best_ci95,
        best_step=run.best_step,
        steps=run.steps,
        alpha=model.logged().get("alpha"),
        training_minutes=round(run.seconds / 60, 3),
        evaluation_minutes=round(test.seconds / 60, 3),
        command=command_line(request, cell, config.run.seed),
        machine=_machine(device),
        version=__version__,
        date=datetime.now(UTC).date().isoformat(),
        controls=test.controls,
        **measured,
    )


def _machine(device: str) -> dict[str, Any]:
    here = machine(torch.get_num_threads(), native.core())
    return {**here, "device": str(choose_device(device))}
