"""The measurements, each made in a process of its own: step times, data share, peak memory.

The setting of the allocator holds for a whole process, so ours and the naive step cannot share one.
Their processes take turns, so that whatever else the machine is doing hits both alike.
"""

import itertools
import multiprocessing
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch

from benchmarks.naive import NaiveTrainer
from tadam import native
from tadam.allocator import keep_large_blocks
from tadam.config import Config
from tadam.data.augment import augment
from tadam.data.episodes import AUGMENT_AUXILIARY, AUGMENT_TASKS, auxiliary_batch, bits
from tadam.data.store import ImageStore
from tadam.model import InputSpec, build_model, initialise
from tadam.training.trainer import Trainer

_AUGMENT = {"flip": True, "crop_padding": 4, "brightness": 0.4, "contrast": 0.4, "saturation": 0.4}


@dataclass(frozen=True)
class Setup:
    """What a step works on; all else is the paper's 5-way 5-shot step with an auxiliary batch."""

    width: int
    threads: int
    image_size: int = 32
    classes: int = 60  # FC100's training split: 60 classes of 600 images
    images_per_class: int = 600
    augmented: bool = False

    def config(self) -> Config:
        return Config().updated(
            {
                "backbone": {"width": self.width},
                "auxiliary": {"probability": 1.0, "decay": 1.0},  # in every step
                "augment": _AUGMENT if self.augmented else {},
            }
        )


@dataclass(frozen=True)
class StepTimes:
    """Seconds of a step, the shortest of each round, ours and the naive one in turn."""

    width: int
    ours: list[float]
    naive: list[float]

    @property
    def ratio(self) -> float:
        """How many times as fast ours is: the median of the rounds' ratios."""
        return statistics.median(n / o for n, o in zip(self.naive, self.ours, strict=True))


@cache
def _trainer(variant: str, setup: Setup) -> Trainer | NaiveTrainer:
    torch.set_num_threads(setup.threads)
    if variant == "ours":
        keep_large_blocks()
    shape = (setup.classes * setup.images_per_class, setup.image_size, setup.image_size, 3)
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    names = [str(k) for k in range(setup.classes)]
    store = ImageStore.from_counts(images, [setup.images_per_class] * setup.classes, names)
    config = setup.config()
    model = build_model(config, InputSpec(3, setup.image_size, setup.classes))
    initialise(model, config, *store.channel_statistics(most=1000))
    if variant == "naive":
        return NaiveTrainer(config, model, store)
    return Trainer(config, model, store, torch.device("cpu"))


def _shortest(work: Callable[[int], object], seconds: float) -> float:
    """Shortest of the calls that fit into `seconds`; at least two, as the first may be cold."""
    times: list[float] = []
    for t in itertools.count():
        start = time.perf_counter()
        work(t)
        times.append(time.perf_counter() - start)
        if len(times) >= 2 and sum(times) >= seconds:
            break
    return min(times)


def _step_seconds(variant: str, setup: Setup, seconds: float) -> float:
    return _shortest(_trainer(variant, setup).step, seconds)


def _data_seconds(setup: Setup, seconds: float) -> float:
    trainer = _trainer("ours", setup)
    config, store, sampler = setup.config(), trainer.store, trainer.sampler
    seed, tasks = config.run.seed, config.episode.tasks

    def prepare(t: int) -> None:
        episode = sampler.batch(t * tasks, tasks)
        rows = np.concatenate([episode.support, episode.query], axis=1).ravel()
        auxiliary, _ = auxiliary_batch(store, config.auxiliary.batch_size, seed, t)
        for chosen, stream in ((rows, AUGMENT_TASKS), (auxiliary, AUGMENT_AUXILIARY)):
            images = torch.from_numpy(store.images[chosen])
            augment(images, config.augment, bits(seed, stream, t))

    return _shortest(prepare, seconds)


def _peak_bytes(setup: Setup, steps: int) -> int:
    trainer = _trainer("ours", setup)
    for t in range(steps):
        trainer.step(t)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # kilobytes elsewhere


def _process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def step_times(
    setup: Setup, rounds: int, seconds: float, progress: Callable[[], None]
) -> StepTimes:
    """Times both steps in alternation, about `seconds` each and round, after one that warms up."""
    times: dict[str, list[float]] = {"ours": [], "naive": []}
    with ExitStack() as stack:
        workers = {variant: stack.enter_context(_process()) for variant in times}
        for round_number in range(rounds + 1):
            for variant, worker in workers.items():
                budget = seconds if round_number else 0.0
                shortest = worker.submit(_step_seconds, variant, setup, budget).result()
                if round_number:
                    times[variant].append(shortest)
                progress()
    return StepTimes(setup.width, **times)


def data_share(setup: Setup, seconds: float) -> float:
    """Share of our step that goes into sampling and augmentation (all of it switched on)."""
    with _process() as worker:
        step = worker.submit(_step_seconds, "ours", setup, seconds).result()
        return worker.submit(_data_seconds, setup, min(seconds, 1.0)).result() / step


def peak_bytes(setup: Setup, steps: int = 2) -> int:
    """Largest resident memory of a fresh process that makes a few of our steps."""
    with _process() as worker:
        return worker.submit(_peak_bytes, setup, steps).result()


def machine(threads: int) -> dict[str, object]:
    """What the numbers depend on."""
    info = Path("/proc/cpuinfo")
    models = [
        line.partition(":")[2].strip()
        for line in (info.read_text().splitlines() if info.exists() else [])
        if line.startswith("model name")
    ]
    return {
        "cpu": models[0] if models else platform.processor() or platform.machine(),
        "cores": multiprocessing.cpu_count(),
        "threads": threads,
        "core": "native" if native.available() else "plain PyTorch",
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def as_record(times: StepTimes) -> dict[str, object]:
    """For JSON."""
    return {**asdict(times), "ratio": times.ratio}
