"""Results of runs that nobody made, for tests of what is done with results."""

from dataclasses import asdict

from tadam.reproduce.experiments import Cell, Request
from tadam.reproduce.result import RunResult, command_line


def made_up(request: Request, cell: Cell, seed: int, accuracy: float, minutes: float) -> RunResult:
    """A run of the request that got this accuracy."""
    config = request.config(cell, seed)
    conditioned = config.conditioning.enabled
    return RunResult(
        experiment=request.experiment,
        dataset=config.data.name,
        preset=request.preset,
        row=cell.row,
        shot=cell.shot,
        train_way=cell.train_way,
        seed=seed,
        changes=request.changes,
        settings=asdict(config),
        accuracy=accuracy,
        ci95=0.007,
        accuracy_unconditioned=accuracy - 0.01 if conditioned else None,
        ci95_unconditioned=0.008 if conditioned else None,
        way=5,
        tasks=500,
        queries=100,
        validation_accuracy=accuracy + 0.02,
        validation_ci95=0.012,
        best_step=2000,
        steps=2500,
        alpha=config.metric.alpha,
        training_minutes=minutes - 1,
        evaluation_minutes=1.0,
        command=command_line(request, cell, seed),
        machine={
            "cpu": "A CPU",
            "cores": 4,
            "threads": 2,
            "core": "native",
            "torch": "2.13.0",
            "python": "3.12.1",
            "device": "cpu",
        },
        version="0.1.0",
        date="2026-01-02",
    )
