"""Local jobs: order, failures that do not stop the others, and one writer per folder."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from diary import Diary
from ray_jobs import double, fail
from tadam.distributed.jobs import Here, Job, Watcher, open_pool, run_jobs
from tadam.errors import Interrupted, RunFailed, UserError


def test_results_come_in_order_and_each_is_reported_once() -> None:
    told: list[tuple[int, int]] = []
    jobs = [Job(f"job {x}", double, {"x": x}) for x in (3, 1, 2)]
    diary = Diary()
    assert run_jobs(jobs, Here(diary), lambda *ended: told.append(ended)) == [6, 2, 4]
    assert told == [(0, 6), (1, 2), (2, 4)]
    assert diary.told == [(["job 3"], 0, 3), (["job 1"], 1, 3), (["job 2"], 2, 3)]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (UserError("no such data"), UserError, "^b: no such data$"),
        (RunFailed("diverged"), RunFailed, "^b: diverged$"),
        (OSError("disk full"), RunFailed, "^b: disk full$"),
        (ZeroDivisionError("bug"), ZeroDivisionError, "^bug\nb: bug$"),
    ],
)
def test_a_failed_job_is_named_after_the_others_have_ended(
    error: Exception, kind: type[Exception], message: str
) -> None:
    told: list[tuple[int, int]] = []
    jobs: list[Job[Any]] = [
        Job("a", double, {"x": 1}),
        Job("b", fail, {"error": error}),
        Job("c", double, {"x": 3}),
    ]
    diary = Diary()
    with pytest.raises(kind, match=message):
        run_jobs(jobs, Here(diary), lambda *ended: told.append(ended))
    assert told == [(0, 2), (2, 6)]
    assert "b failed, continuing with the others" in diary.told


def test_the_first_of_several_failures_is_explained_and_the_others_named() -> None:
    jobs = [Job(name, fail, {"error": RunFailed(f"{name} broke")}) for name in "abc"]
    with pytest.raises(RunFailed, match=r"^a: a broke \(also failed: b, c\)$"):
        run_jobs(jobs, Here(Watcher()))


def test_an_interrupted_job_keeps_the_others_from_starting() -> None:
    told: list[tuple[int, int]] = []
    jobs: list[Job[Any]] = [
        Job("a", fail, {"error": Interrupted("stopped")}),
        Job("b", double, {"x": 1}),
    ]
    with pytest.raises(Interrupted, match=r"^a: stopped$"):
        run_jobs(jobs, Here(Watcher()), lambda *ended: told.append(ended))
    assert told == []


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that is writing to the folder `runs/x`."""
    script = (
        "import sys, time, pathlib, tadam.distributed.jobs as j\n"
        "def hold(): print('held', flush=True); time.sleep(600)\n"
        "j.Job('x', hold, {}, pathlib.Path(sys.argv[1])).run()"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "runs" / "x")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_folder_has_one_writer_at_a_time(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    job = Job("mine", double, {"x": 2}, tmp_path / "runs" / "x")
    for wait in (0.0, 0.2):
        with pytest.raises(RunFailed, match=rf"^process {other.pid} on .* is still writing to"):
            job.run(wait)


def test_the_next_writer_waits_until_a_killed_one_is_gone_and_leaves_no_lock(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    job = Job("mine", double, {"x": 2}, tmp_path / "runs" / "x")
    Timer(0.5, other.kill).start()
    assert job.run(wait=60) == 4
    with open_pool(None) as pool:
        assert run_jobs([job], pool) == [4]
    assert list((tmp_path / "runs").iterdir()) == []
