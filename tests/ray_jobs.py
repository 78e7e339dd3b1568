"""What the workers of test_ray_pool.py run: they import it by name, so it is small."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def double(x: int) -> int:
    return 2 * x


def fail(error: Exception) -> None:
    raise error


def meet(folder: Path, n: int) -> int:
    """Ends only if another one runs at the same time."""
    (folder / str(n)).touch()
    while len(list(folder.iterdir())) < 2:
        time.sleep(0.01)
    return n


def survive(folder: Path, deaths: int) -> int:
    """Kills its own worker that many times; leaves a line for each death, and for an end."""
    folder.mkdir(exist_ok=True)
    with open(folder / "story", "a+") as story:
        story.seek(0)
        dies = len(story.readlines()) < deaths
        story.write("death\n" if dies else "end\n")
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)
    return deaths


def wait_forever() -> None:
    while True:
        time.sleep(0.01)


def surroundings() -> tuple[int, str, str | None]:
    import torch

    return torch.get_num_threads(), os.getcwd(), os.environ.get("TADAM_TEST")


def dying_train_point(**arguments: Any) -> object:
    """Trains; before the fifth step of alpha 5 the worker is killed, once."""
    return _train_point(_die_once, **arguments)


def slow_train_point(**arguments: Any) -> object:
    """Trains at leisure."""
    return _train_point(lambda folder, t: time.sleep(0.05), **arguments)


def _die_once(run: Path, t: int) -> None:
    with open(run.with_name(f"steps-{run.name}"), "a+") as steps:
        steps.seek(0)
        dies = run.name == "alpha-5" and t == 4 and "died" not in steps.read()
        steps.write("died\n" if dies else f"{t}\n")
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)


def _train_point(before_step: Callable[[Path, int], None], **arguments: Any) -> object:
    from tadam.sweep import _train_point
    from tadam.training.trainer import Trainer

    step = Trainer.step

    def watched(self: Trainer, t: int) -> object:
        before_step(arguments["folder"], t)
        return step(self, t)

    Trainer.step = watched  # type: ignore[assignment,method-assign]
    try:
        return _train_point(**arguments)
    finally:
        Trainer.step = step  # type: ignore[method-assign]
