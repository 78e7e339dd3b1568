"""Evaluation on many tasks: ours against the naive loop over tasks."""

import statistics
import time
from dataclasses import replace
from functools import cache

from tadam.benchmarks.naive import NaiveTadam, evaluate
from tadam.benchmarks.results import TIMES, Measurement
from tadam.benchmarks.targets import EVALUATION_CONDITIONED, EVALUATION_PLAIN
from tadam.benchmarks.worker import Worker
from tadam.benchmarks.workload import Setup
from tadam.data.episodes import EpisodeSampler
from tadam.evaluation.tasks import evaluate_tasks
from tadam.methods.tadam import Tadam


@cache
def _prepared(setup: Setup) -> tuple[Tadam, EpisodeSampler]:
    store = setup.store()
    return setup.model(store), EpisodeSampler(store, setup.way, setup.shot, setup.queries, seed=0)


def our_seconds(setup: Setup, tasks: int) -> float:
    """Our time for all tasks; like `naive_seconds`, runs in a worker."""
    model, sampler = _prepared(setup)
    evaluate_tasks(model, sampler, 1, controls=False)  # warms up
    return evaluate_tasks(model, sampler, tasks, controls=False).seconds


def naive_seconds(setup: Setup, first: int, count: int) -> list[float]:
    """The naive time of each task."""
    model, sampler = _prepared(setup)
    naive = NaiveTadam(model)
    times = []
    for number in range(first, first + count):
        start = time.perf_counter()
        evaluate(naive, sampler, [number])
        times.append(time.perf_counter() - start)
    return times


def against_naive(
    setup: Setup, threads: int, tasks: int, conditioned_tasks: int, naive_tasks: int
) -> list[Measurement]:
    """Measures a model without TEN and one with it; our turn falls between two halves of the naive.

    The naive loop embeds every task's images afresh, so its time grows linearly with the tasks.

    Args:
        setup: Its store has the size of a test split.
        threads: Threads of each process.
        tasks: Tasks for ours, unconditioned.
        conditioned_tasks: Tasks for ours, conditioned.
        naive_tasks: Tasks timed for the naive loop, at least 2; the median is used.
    """
    half, measurements = naive_tasks // 2, []
    with Worker(threads) as ours, Worker(threads) as naive:
        for conditioned, count in ((False, tasks), (True, conditioned_tasks)):
            setup = replace(setup, conditioned=conditioned)
            naive(naive_seconds, setup, 0, 1)  # warms up
            times = naive(naive_seconds, setup, 1, half)
            seconds = ours(our_seconds, setup, count)
            times += naive(naive_seconds, setup, 1 + half, naive_tasks - half)
            measurements.append(
                Measurement(
                    "evaluation",
                    EVALUATION_CONDITIONED if conditioned else EVALUATION_PLAIN,
                    f"width {setup.width}",
                    statistics.median(times) * count / seconds,
                    TIMES,
                    note=f"{count} tasks; the naive time is scaled linearly from {naive_tasks}",
                    raw={"tasks": count, "seconds": seconds, "naive_seconds_of_a_task": times},
                )
            )
    return measurements
