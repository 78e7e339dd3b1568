"""SIGKILL in the middle of a checkpoint: of a run's only process, of torchrun's ranks, on Ray.

Each attempt dies at a moment drawn from the seed and the number of the attempt: somewhere among the
system calls that write a checkpoint. What the last attempt leaves must be what an undisturbed run
leaves, bit for bit.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

import tadam
from tiny import SETTINGS, arguments

#: Two tasks a step, so that two ranks share them, and a checkpoint after every step.
_SETTINGS = (
    *SETTINGS,
    "validation.every=4",
    "run.checkpoint_every=1",
    "backbone.statistics=task",
)
#: Calls between which a process may die.
_CALLS = ("fsync", "replace", "link", "chmod")
_HERE = Path(__file__)
#: Environment variable with a file in which ranks leave a mark before they die.
_DEATHS = "TADAM_ATTACK_DEATHS"


def die_in_a_checkpoint(attempt: int, deaths: int, seed: int) -> None:
    """Makes this process kill itself while it writes, unless it is past the last of the deaths."""
    if attempt >= deaths:
        return
    left = random.Random(f"{seed} {attempt}").randint(5, 40)  # a step makes about ten
    for name in _CALLS:
        original = getattr(os, name)

        def call(*given: Any, original: Any = original, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                _die()
            return original(*given, **options)

        setattr(os, name, call)


def _die() -> None:
    if _DEATHS in os.environ:
        with open(os.environ[_DEATHS], "a") as file:
            file.write("x")
    os.kill(os.getpid(), signal.SIGKILL)


def killed_settings(deaths: int) -> tuple[str, ...]:
    """The settings of a run that is long enough to die that often."""
    return (*_SETTINGS, f"schedule.episodes={3 * deaths + 4}")


def train(folder: Path, images: Path, deaths: int, resume: bool = False) -> None:
    """Trains in this process."""
    dataset, settings = f"folder:{images}", killed_settings(deaths)
    tadam.train("images", folder, dataset=dataset, settings=settings, device="cpu", resume=resume)


def train_and_die(folder: Path, images: Path, deaths: int, seed: int) -> int:
    """Trains; the process dies in each of the first attempts, which it counts in a file."""
    with open(folder.with_name(f"{folder.name}-attempts"), "a+") as file:
        file.seek(0)
        attempt = len(file.read())
        file.write("x")
    die_in_a_checkpoint(attempt, deaths, seed)
    resume = any((folder / f"{name}.safetensors").exists() for name in ("last", "previous"))
    train(folder, images, deaths, resume)
    return attempt


def differences(run: Path, undisturbed: Path) -> list[str]:
    """Tensors of the last and the best weights that are not the same."""
    wrong = []
    for name in ("last.safetensors", "best.safetensors"):
        found, expected = load_file(run / name), load_file(undisturbed / name)
        if found.keys() != expected.keys():
            return [f"{name} holds other tensors"]
        for key, tensor in expected.items():
            if not torch.equal(found[key], tensor):
                wrong.append(f"{name}: {key}")
    return wrong


def alone(folder: Path, images: Path, deaths: int, seed: int) -> int:
    """A run in a process of its own, started again whenever it dies; returns the deaths."""
    code = "import sys, kills; from pathlib import Path; run, images, *numbers = sys.argv[1:]; "
    code += "kills.train_and_die(Path(run), Path(images), *map(int, numbers))"
    command: list[Any] = [sys.executable, "-c", code, folder, images, str(deaths), str(seed)]
    for died in range(deaths + 1):
        done = subprocess.run(command, env=_environment(), capture_output=True, check=False)
        if done.returncode == 0:
            return died
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    raise AssertionError("it never came to its end")


def torchrun(folder: Path, images: Path, deaths: int, seed: int, undisturbed: bool = False) -> int:
    """Two ranks under torchrun, one of which, drawn each time, dies; returns the deaths."""
    wanted = 0 if undisturbed else deaths
    settings = arguments(killed_settings(deaths))
    command: list[Any] = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
        f"--max-restarts={deaths}", "--monitor-interval=0.1", _HERE, str(wanted), str(seed),
        "train", "images", "--dataset", f"folder:{images}", "--out", folder, *settings,
    ]  # fmt: skip
    marks = folder.with_name(f"{folder.name}-deaths")
    marks.touch()
    environment = {**_environment(), _DEATHS: str(marks)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return len(marks.read_text())


def on_ray(folder: Path, images: Path, deaths: int, seed: int) -> int:
    """A job on a Ray of its own, whose worker dies; returns the deaths."""
    from tadam.distributed.jobs import Cluster, Job, open_pool, run_jobs

    given = {"folder": folder, "images": images, "deaths": deaths, "seed": seed}
    job = Job("killed", train_and_die, given, folder)
    with open_pool(Cluster("local", retries=deaths)) as pool:
        (died,) = run_jobs([job], pool)
    return died


def python_path() -> str:
    """Where a process finds what is here."""
    paths = [str(_HERE.parent), str(_HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(filter(None, paths))


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": python_path()}


def main() -> None:
    """One rank: `kills.py DEATHS SEED` and the arguments of `tadam`."""
    deaths, seed = int(sys.argv[1]), int(sys.argv[2])
    sys.argv[1:3] = []
    attempt, rank = (int(os.environ[name]) for name in ("TORCHELASTIC_RESTART_COUNT", "RANK"))
    if random.Random(f"{seed} {attempt} rank").randint(0, 1) == rank:
        if rank == 0:
            die_in_a_checkpoint(attempt, deaths, seed)
        else:  # it writes nothing: it dies while the other one does
            _die_in_a_step(attempt, deaths, seed)
    from tadam.cli.app import main as command_line

    command_line()


def _die_in_a_step(attempt: int, deaths: int, seed: int) -> None:
    from tadam.training.trainer import Trainer

    step, left = Trainer.step, random.Random(f"{seed} {attempt}").randint(0, 3)

    def dying(self: Trainer, t: int, only: Any = None) -> Any:
        nonlocal left
        left -= 1
        if left < 0 and attempt < deaths:
            time.sleep(random.Random(f"{seed} {attempt} wait").random() / 50)
            _die()
        return step(self, t, only)

    Trainer.step = dying  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
