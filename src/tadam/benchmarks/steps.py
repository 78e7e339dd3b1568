"""The training step: speed against the naive one, share spent on data, scaling and memory."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from tadam import native
from tadam.benchmarks.arithmetic import step_flops
from tadam.benchmarks.results import GIGABYTES, SHARE, TIMES, Measurement
from tadam.benchmarks.targets import DATA, MEMORY, STEP_NATIVE, STEP_PLAIN, STEP_SHARE
from tadam.benchmarks.worker import Worker, in_turn, shortest, speedup
from tadam.benchmarks.workload import Setup, naive_trainer, our_trainer
from tadam.data.augment import augment
from tadam.data.episodes import AUGMENT_AUXILIARY, AUGMENT_TASKS, auxiliary_batch, bits
from tadam.system.memory import peak_bytes

NOT_BUILT = "the native core was not built, or TADAM_NATIVE=0 turned it off"


def our_step_seconds(setup: Setup, seconds: float) -> float:
    """Time of one of our steps; like the next three, runs in a worker."""
    return shortest(our_trainer(setup).step, seconds)


def naive_step_seconds(setup: Setup, seconds: float) -> float:
    """Time of one naive step."""
    return shortest(naive_trainer(setup).step, seconds)


def data_seconds(setup: Setup, seconds: float) -> float:
    """Time to draw and augment the images of one of our steps."""
    trainer = our_trainer(setup)
    config, store, sampler = trainer.config, trainer.store, trainer.sampler
    seed, tasks = config.run.seed, config.episode.tasks

    def prepare(t: int) -> None:
        episode = sampler.batch(t * tasks, tasks)
        rows = np.concatenate([episode.support, episode.query], axis=1).ravel()
        auxiliary, _ = auxiliary_batch(store, config.auxiliary.batch_size, seed, t)
        for chosen, stream in ((rows, AUGMENT_TASKS), (auxiliary, AUGMENT_AUXILIARY)):
            images = torch.from_numpy(store.images[chosen])
            augment(images, config.augment, bits(seed, stream, t))

    return shortest(prepare, seconds)


def step_peak_bytes(setup: Setup, steps: int) -> int | None:
    """Peak resident memory of a process that runs a few of our steps."""
    for t in range(steps):
        our_trainer(setup).step(t)
    return peak_bytes()


def against_naive(setup: Setup, threads: int, rounds: int, seconds: float) -> list[Measurement]:
    """Times our step with the native core, ours in plain PyTorch, and the naive one, in turn."""
    kinds = {"plain": our_step_seconds, "naive": naive_step_seconds}
    if native.available():
        kinds = {"native": our_step_seconds, **kinds}
    with ExitStack() as stack:
        variants = {
            kind: partial(
                stack.enter_context(Worker(threads, native=kind == "native")), work, setup
            )
            for kind, work in kinds.items()
        }
        times = in_turn(variants, rounds, seconds)

    def row(name: str, kind: str) -> Measurement:
        raw = {"seconds": times.get(kind), "naive_seconds": times["naive"]}
        value = speedup(times[kind], times["naive"]) if kind in times else None
        note = "" if kind in times else NOT_BUILT
        return Measurement("step", name, f"width {setup.width}", value, TIMES, note=note, raw=raw)

    return [row(STEP_NATIVE, "native"), row(STEP_PLAIN, "plain")]


def data_share(setup: Setup, threads: int, seconds: float) -> Measurement:
    """Share of our step spent on sampling and augmentation, with every augmentation on."""
    setup = replace(setup, augmented=True)
    with Worker(threads) as worker:
        worker(our_step_seconds, setup, 0.0)  # warms up
        step = worker(our_step_seconds, setup, seconds)
        data = worker(data_seconds, setup, seconds / 2)
    raw = {"seconds": data, "step_seconds": step}
    return Measurement("data", DATA, f"width {setup.width}", data / step, SHARE, True, raw=raw)


def growth_settings(base: Setup, values: Mapping[str, tuple[int, ...]]) -> dict[str, Setup]:
    """The base setup and its variants in one size each, by label."""
    settings = {"base": base}
    for size, choices in values.items():
        for value in choices:
            setup = replace(base, **{size: value})  # type: ignore[arg-type]
            if setup != base:
                settings[f"{size.replace('_', ' ')} {value}"] = setup
    return settings


def growth(name: str, setup: Setup, threads: int, seconds: float) -> Measurement:
    """Times our step at one setting; a rate in GFLOP/s, which the suite turns into a share."""
    with Worker(threads) as worker:
        worker(our_step_seconds, setup, 0.0)
        step = worker(our_step_seconds, setup, seconds)
    flops = step_flops(setup.config(), setup.image_size)
    raw = {"seconds": step, "flops": flops}
    return Measurement("scaling", STEP_SHARE, name, flops / step / 1e9, "GFLOP/s", raw=raw)


def memory(setup: Setup, threads: int, steps: int = 2) -> Measurement:
    """Peak resident memory of a fresh training process, including Python and torch."""
    with Worker(threads) as worker:
        peak = worker(step_peak_bytes, setup, steps)
    where = f"width {setup.width}, {setup.image_size}x{setup.image_size}"
    value = peak / 1e9 if peak else None
    note = "" if peak else "this system does not report it"
    return Measurement("memory", MEMORY, where, value, GIGABYTES, lower_is_better=True, note=note)
