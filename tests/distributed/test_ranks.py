"""Two real processes over gloo: same weights as one process, a killed rank, shared evaluation."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import tadam
from tadam.distributed.ranks import ALONE
from tadam.errors import RunFailed, UserError
from tadam.training.log import read_log
from thread_ranks import ThreadRanks, in_threads
from tiny import SETTINGS, arguments, write_image_folder

STEPS = 9
TASKWISE = (
    *SETTINGS,
    f"schedule.episodes={STEPS}",
    "validation.every=4",
    "episode.tasks=4",  # two for each process
    "auxiliary.batch_size=7",  # pieces of 1 and of 2 images
    "auxiliary.probability=0.6",
    "backbone.statistics=task",
)
#: `tadam`, but one process dies in the middle of a run, and the other is told to stop at the worst
#: time: after it has noticed and before it has said so.
DIES = """
import os, signal
from tadam.cli.app import main
from tadam.training.log import RunLog
from tadam.training.trainer import Trainer

step, close = Trainer.step, RunLog.close

def dying(self, t):
    first_try = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if t == 5 and first_try and os.environ["RANK"] == os.environ["DYING_RANK"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, t)

def closing(self):
    close(self)
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGTERM)

Trainer.step, RunLog.close = dying, closing
main()
"""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_image_folder(tmp_path_factory.mktemp("images"))


def train_arguments(images: Path, out: Path, *extra: str) -> list[str]:
    return ["train", "images", "--dataset", f"folder:{images}", "--out", str(out), *extra]


def start(commands: Sequence[Sequence[str]]) -> list[subprocess.Popen[str]]:
    """Starts the ranks of one machine as torchrun would, each with its own command."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = []
    for rank, command in enumerate(commands):
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "TORCHELASTIC_RUN_ID": "test",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "WORLD_SIZE": str(len(commands)),
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "tadam", *command],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        processes.append(process)
    return processes


def finish(processes: list[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of each."""
    outputs = [process.communicate(timeout=300) for process in processes]
    return [(p.returncode, *out) for p, out in zip(processes, outputs, strict=True)]


@pytest.fixture(scope="module")
def pair(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of two undisturbed processes."""
    out = tmp_path_factory.mktemp("runs") / "pair"
    command = train_arguments(images, out, *arguments(TASKWISE))
    (code, stdout, stderr), silent = finish(start([command, command]))
    assert (code, silent) == (0, (0, "", "")), stderr
    assert stdout.count("best validation accuracy") == stdout.count("\n") == 1
    assert stderr.count("validation") == stderr.count("\n") == 3
    return out


def assert_close(one: Path, other: Path, tolerance: float) -> None:
    first, second = load_file(one), load_file(other)
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        # Momentum holds gradients, which are larger than the steps they cause.
        allowed = 10 * tolerance if name.endswith("momentum_buffer") else tolerance
        torch.testing.assert_close(tensor, second[name], rtol=allowed, atol=allowed, msg=name)


def test_two_processes_learn_what_one_learns_from_all_tasks(
    images: Path, pair: Path, tmp_path: Path
) -> None:
    dataset = f"folder:{images}"
    tadam.train("images", tmp_path / "one", dataset=dataset, settings=TASKWISE, device="cpu")
    for name in ("last.safetensors", "best.safetensors"):
        assert_close(tmp_path / "one" / name, pair / name, 1e-5)
    ours, theirs = read_log(pair), read_log(tmp_path / "one")
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        for key in other.keys() - {"seconds", "images_per_second", "gamma0", "beta0"}:
            assert mine[key] == pytest.approx(other[key], rel=1e-4, abs=1e-6), key
    # includes steps with and without an auxiliary update
    assert 0 < sum("auxiliary_loss" in record for record in ours) < STEPS


def dying_run(
    images: Path, out: Path, size: int, restarts: int, rank: int
) -> subprocess.CompletedProcess[str]:
    """A run under the real torchrun in which one process dies on the first attempt."""
    script = out.parent / "dies.py"
    script.write_text(DIES)
    torchrun = ["torch.distributed.run", "--standalone"]
    torchrun += [f"--nproc-per-node={size}", f"--max-restarts={restarts}"]
    command = train_arguments(images, out, *arguments(TASKWISE))
    return subprocess.run(
        [sys.executable, "-m", *torchrun, script, *command],
        env={**os.environ, "OMP_NUM_THREADS": "1", "DYING_RANK": str(rank)},
        check=False,
        text=True,
        capture_output=True,
        timeout=300,
    )


def test_a_killed_rank_is_noticed_and_the_run_resumes_from_the_last_checkpoint(
    images: Path, pair: Path, tmp_path: Path
) -> None:
    out = tmp_path / "killed"
    process = dying_run(images, out, size=2, restarts=1, rank=1)
    stderr = process.stderr
    assert process.returncode == 0, stderr
    assert "error: rank 0 lost another process of this run" in stderr
    assert f"resuming after step 4 of {STEPS}" in stderr
    assert "Traceback" not in stderr
    for name in ("last.safetensors", "best.safetensors"):
        assert_close(out / name, pair / name, 0.0)
    assert [r["step"] for r in read_log(out)] == [r["step"] for r in read_log(pair)]


def test_a_restarted_process_resumes_its_own_run_but_not_one_that_it_found(
    images: Path, tmp_path: Path
) -> None:
    out = tmp_path / "killed"
    assert dying_run(images, out, size=1, restarts=0, rank=0).returncode != 0
    left = (out / "last.safetensors").read_bytes()
    found = dying_run(images, out, size=2, restarts=1, rank=0)
    assert found.returncode != 0
    assert found.stderr.count("--resume") == 2, found.stderr  # also on the second attempt
    assert (out / "last.safetensors").read_bytes() == left
    own = dying_run(images, tmp_path / "own", size=1, restarts=1, rank=0)
    assert own.returncode == 0, own.stderr
    assert f"resuming after step 4 of {STEPS}" in own.stderr


def test_sigterm_to_one_leaves_a_checkpoint_that_any_number_can_resume(
    images: Path, pair: Path, tmp_path: Path
) -> None:
    out = tmp_path / "stopped"
    command = train_arguments(images, out, *arguments(TASKWISE))
    processes = start([command, command])
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and processes[0].poll() is None:
        if (out / "log.jsonl").exists() and read_log(out):
            break
        time.sleep(0.005)
    processes[1].send_signal(signal.SIGTERM)
    (code, _, stderr), silent = finish(processes)
    assert (code, silent) == (1, (1, "", ""))
    assert stderr.count("stopped after step") == 1
    assert 1 <= read_log(out)[-1]["step"] < STEPS
    dataset = f"folder:{images}"
    tadam.train("images", out, dataset=dataset, settings=TASKWISE, device="cpu", resume=True)
    assert_close(out / "last.safetensors", pair / "last.safetensors", 1e-5)


def test_tadam_evaluate_shares_its_tasks(images: Path, pair: Path) -> None:
    options = ("--way", "2", "--shot", "2", "--tasks", "7", "--queries", "4", "--json")
    command = ("evaluate", str(pair), "--dataset", f"folder:{images}", *options)
    (code, stdout, stderr), silent = finish(start([command, command]))
    assert (code, stderr, silent) == (0, "", (0, "", ""))
    ours = json.loads(stdout)
    alone = tadam.evaluate(pair, f"folder:{images}", way=2, shot=2, tasks=7, queries=4)
    for name in ("accuracy", "ci95", "accuracy_unconditioned", "confusion", "per_class", "tasks"):
        assert ours[name] == getattr(alone, name), name
    assert ours["calibration_error"] == pytest.approx(alone.calibration_error, abs=1e-6)


def test_tasks_that_cannot_be_shared_are_one_sentence(images: Path, tmp_path: Path) -> None:
    settings = arguments((*SETTINGS, "episode.tasks=3"))
    command = train_arguments(images, tmp_path / "run", *settings)
    (code, stdout, stderr), silent = finish(start([command, command]))
    assert (code, stdout, silent) == (2, "", (2, "", ""))
    assert stderr.startswith("error: episode.tasks is 3, which 2 processes cannot share evenly")
    assert stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def agree(size: int, errors: dict[int, Exception]) -> list[Exception | None]:
    """The error each rank raises when some of them fail."""

    def rank(ranks: ThreadRanks) -> Exception | None:
        try:
            with ranks.agreed():
                if ranks.rank in errors:
                    raise errors[ranks.rank]
        except (UserError, RunFailed) as error:
            return error
        return None

    return in_threads(size, rank)


@pytest.mark.parametrize(
    ("errors", "kind", "sentence"),
    [
        ({0: UserError("no such folder")}, UserError, "no such folder"),
        ({2: UserError("no such folder")}, UserError, "rank 2: no such folder"),
        ({0: UserError("a"), 1: UserError("a")}, UserError, "a"),
        ({1: OSError("disk full"), 2: UserError("b")}, RunFailed, "rank 1: disk full"),
        ({1: MemoryError()}, RunFailed, "rank 1: out of memory"),
    ],
)
def test_an_error_on_one_process_is_an_error_on_all(
    errors: dict[int, Any], kind: type[Any], sentence: str
) -> None:
    raised = agree(3, errors)
    assert [(type(error), str(error)) for error in raised] == [(kind, sentence)] * 3


def test_without_an_error_all_continue() -> None:
    assert agree(3, {}) == [None] * 3


def test_one_process_of_each_machine_goes_first() -> None:
    done: list[int] = []

    def rank(ranks: ThreadRanks) -> None:
        ranks.first_here(lambda: done.append(ranks.rank))
        assert sorted(done) == [0, 2]

    in_threads(4, rank, on_each_machine=2)


def test_a_single_process_waits_for_nobody() -> None:
    tensor = torch.ones(2)
    ALONE.average([tensor])
    assert tensor.tolist() == [1.0, 1.0]
    assert ALONE.gather("x") == ["x"]
    assert ALONE.any(True)
    assert not ALONE.any(False)
    assert list(ALONE.share(5)) == [0, 1, 2, 3, 4]
    with pytest.raises(OSError, match="as it is"), ALONE.agreed():
        raise OSError("as it is")
