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
    from tadam.training.sweep import _train_point

    return _watched(_die_once, _train_point, **arguments)


def slow_train_point(**arguments: Any) -> object:
    """Trains at leisure."""
    from tadam.training.sweep import _train_point

    return _watched(lambda folder, t: time.sleep(0.05), _train_point, **arguments)


def dying_make_run(**arguments: Any) -> object:
    """A run of a table; before the fifth step of the cosine metric's the worker is killed, once."""
    from tadam.reproduce.runs import _make_run

    return _watched(_die_once, _make_run, **arguments)


def dying_predict_part(**arguments: Any) -> object:
    """A part of a prediction; the worker of the second part is killed, once."""
    from tadam.evaluation.bulk import predict_part

    died = arguments["folder"] / ".died"
    if arguments["number"] == 1 and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return predict_part(**arguments)


def _die_once(run: Path, t: int) -> None:
    with open(run.with_name(f"steps-{run.name}"), "a+") as steps:
        steps.seek(0)
        chosen = run.name in ("alpha-5", "cosine-5shot-seed0")
        dies = chosen and t == 4 and "died" not in steps.read()
        steps.write("died\n" if dies else f"{t}\n")
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)


def _watched(
    before_step: Callable[[Path, int], None], train: Callable[..., object], **arguments: Any
) -> object:
    from tadam.training.trainer import Trainer

    step = Trainer.step

    def watched(self: Trainer, t: int) -> object:
        before_step(arguments["folder"], t)
        return step(self, t)

    Trainer.step = watched  # type: ignore[assignment,method-assign]
    try:
        return train(**arguments)
    finally:
        Trainer.step = step  # type: ignore[method-assign]
