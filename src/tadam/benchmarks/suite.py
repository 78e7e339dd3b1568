"""The whole benchmark: which measurements to make, for how long, and the combined report."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from tadam import native
from tadam.benchmarks import (
    evaluation,
    inference,
    method_steps,
    network,
    photos_speed,
    prediction,
    serving_speed,
    startup,
    steps,
)
from tadam.benchmarks.gemm import gemm_gflops
from tadam.benchmarks.results import SHARE, TIMES, Measurement, Report
from tadam.benchmarks.worker import Worker
from tadam.benchmarks.workload import Setup
from tadam.errors import RunFailed, UserError
from tadam.recipes.method_recipes import method_rows
from tadam.system.machine import machine

PARTS = (
    *("gemm", "step", "data", "evaluation", "inference", "prediction", "scaling", "memory"),
    "startup",
    "photos",
    "serve",
    "methods",
)
_SIZES = {
    "way": (5, 10, 20),
    "shot": (1, 5, 10),
    "queries": (16, 32, 64),
    "width": (8, 16, 32, 64),
    "image_size": (32, 64, 84),
}
_MEMORY = (Setup(64), Setup(64, image_size=84, images_per_class=40))


@dataclass(frozen=True)
class Plan:
    """What to measure, and for how long.

    Attributes:
        threads: Threads of each measuring process.
        widths: Filters in the first block.
        parts: A subset of `PARTS`.
        rounds: Turns for each variant in a comparison.
        seconds: Length of a turn.
        tasks: Tasks to evaluate an unconditioned model on. Images shared by tasks are embedded
            once, so the result depends on this number.
        conditioned_tasks: Tasks to evaluate a conditioned model on.
        naive_tasks: Tasks to time in the naive evaluation.
        gemm_size: Side of the matrices whose product sets the machine's limit.
        base: The step from which sizes are scaled.
        sizes: Values to try for each field of `base`.
        memory: Steps whose memory is measured.
        test_classes: Classes in the evaluation store; FC100's test split has 20.
        test_queries: Queries per evaluated task.
        photos: JPEG files to classify.
        requests: Requests over which the memory of the HTTP service is watched.
        methods: Rows of Table 1 whose steps are timed; all by default.
    """

    threads: int
    widths: tuple[int, ...] = (16, 32, 64)
    parts: tuple[str, ...] = PARTS
    rounds: int = 4
    seconds: float = 2.0
    tasks: int = 500
    conditioned_tasks: int = 500
    naive_tasks: int = 6
    gemm_size: int = 2048
    base: Setup = field(default_factory=Setup)
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: dict(_SIZES))
    memory: tuple[Setup, ...] = _MEMORY
    test_classes: int = 20
    test_queries: int = 100
    photos: int = 96
    requests: int = 20_000
    methods: tuple[str, ...] = field(default_factory=lambda: tuple(method_rows()))

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise UserError(f"`threads` must be at least 1, got {self.threads}")
        for width in self.widths:
            if not 1 <= width <= 1024:
                raise UserError(f"`widths` must be between 1 and 1024, got {width}")
        for part in self.parts:
            if part not in PARTS:
                raise UserError(f"unknown part {part!r} in `parts`: choose from {', '.join(PARTS)}")


def quick_plan(threads: int) -> Plan:
    """About two minutes on two cores: narrower networks, shorter turns, fewer settings."""
    return Plan(
        threads,
        widths=(16, 32),
        rounds=2,
        seconds=0.7,
        conditioned_tasks=50,
        naive_tasks=4,
        sizes={"way": (20,), "shot": (10,), "queries": (64,), "image_size": (84,)},
        memory=(Setup(64),),
        requests=400,
    )


@dataclass(frozen=True)
class Trial:
    """Measurements made together, with a label for the progress display."""

    part: str
    label: str
    work: Callable[[], Measurement | list[Measurement]]


def trials(plan: Plan) -> list[Trial]:
    """The measurements of a plan, in the order of `PARTS`."""
    threads, base, turns = plan.threads, plan.base, (plan.rounds, plan.seconds)
    test = replace(base, classes=plan.test_classes, queries=plan.test_queries)
    found: list[Trial] = []

    def add(part: str, label: str, work: Callable[..., object], *arguments: object) -> None:
        found.append(Trial(part, label, partial(work, *arguments)))  # type: ignore[arg-type]

    for width in plan.widths:
        at, size = replace(base, width=width), base.image_size
        where = f", width {width}"
        add("gemm", "network" + where, network.rates, width, size, threads, plan.gemm_size, *turns)
        add("step", "step" + where, steps.against_naive, at, threads, *turns)
        add("data", "data" + where, steps.data_share, at, threads, plan.seconds)
        tasks = (plan.tasks, plan.conditioned_tasks, plan.naive_tasks)
        split = replace(test, width=width)
        add("evaluation", "evaluation" + where, evaluation.against_naive, split, threads, *tasks)
        sizes = (width, size, threads)
        add("inference", "inference" + where, inference.against_onnxruntime, *sizes, *turns)
        add("prediction", "prediction" + where, prediction.measure, split, threads, *turns)
    for name, setup in steps.growth_settings(base, plan.sizes).items():
        add("scaling", f"step, {name}", steps.growth, name, setup, threads, plan.seconds)
    for setup in plan.memory:
        where = f"memory, width {setup.width}, {setup.image_size} pixels"
        add("memory", where, steps.memory, setup, threads)
    add("startup", "startup", startup.measure, plan.rounds)
    add("photos", "photos", photos_speed.measure, threads, *turns, plan.photos)
    add("serve", "HTTP service", serving_speed.measure, *turns, plan.requests)
    for row in plan.methods:
        add("methods", f"step of {row}", method_steps.method_against_naive, row, threads, *turns)
    found.sort(key=lambda trial: PARTS.index(trial.part))
    return [trial for trial in found if trial.part in plan.parts]


def run(plan: Plan, progress: Callable[[str, int, int], None]) -> Report:
    """Measures everything in a plan.

    The machine's GEMM rate is measured before, between and after the trials, and the best is used:
    a share of it must not look good just because another program slowed the GEMM down.

    Args:
        plan: What to measure.
        progress: Called with (next label, trials done, total).
    """
    started = time.monotonic()
    todo = trials(plan)
    measurements: list[Measurement] = []
    with Worker(plan.threads) as limit:
        best = limit(gemm_gflops, plan.gemm_size, plan.seconds)
        for done, trial in enumerate(todo):
            progress(trial.label, done, len(todo))
            measurements += _results(trial)
            best = max(best, limit(gemm_gflops, plan.gemm_size, plan.seconds / 10))
    progress("done", len(todo), len(todo))
    return Report(
        machine={**machine(plan.threads, native.core()), "gemm_gflops": best},
        plan=asdict(plan),
        measurements=tuple(as_shares(measurements, best)),
        seconds=time.monotonic() - started,
    )


def _results(trial: Trial) -> list[Measurement]:
    """Runs a trial; if it fails, the other trials keep their results."""
    try:
        result = trial.work()
    except RunFailed as error:
        return [
            Measurement(trial.part, trial.label, "", None, TIMES, note=f"not measured: {error}")
        ]
    return result if isinstance(result, list) else [result]


def as_shares(measurements: Sequence[Measurement], gemm: float) -> list[Measurement]:
    """Converts rates in GFLOP/s to shares of the GEMM rate; leaves the rest unchanged."""
    return [
        replace(m, value=m.value / gemm, unit=SHARE, raw={**m.raw, "gflops": m.value})
        if m.unit == "GFLOP/s" and m.value is not None
        else m
        for m in measurements
    ]
