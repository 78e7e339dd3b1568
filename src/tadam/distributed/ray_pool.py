"""Jobs on a Ray cluster: every job a Ray task, started again by us when its worker dies."""

import logging
import os
import secrets
import signal
import socket
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tadam.distributed.jobs import Cluster, Ended, Job, Watcher
from tadam.errors import Interrupted, RunFailed, UserError
from tadam.system.interruption import on_terminate

# Read when Ray is imported: keeps its messages about workers from between our results on stdout.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
try:
    import ray
    from ray.exceptions import RayError, RaySystemError, RayTaskError
except ImportError:
    raise UserError("jobs on a cluster need Ray: pip install 'tadam-fewshot[cluster]'") from None

R = TypeVar("R")

LOCAL = "local"
_POLL = 1.0  # seconds between looks at which jobs have started
_GRACE = 60.0  # seconds for cancelled jobs to write their checkpoints
#: Seconds that an attempt waits for the one before. A machine that lost touch is given up by the
#: cluster, and gives itself up, within about a minute of each other.
_WAIT = 120.0
_ANSWER = 5.0  # seconds for a cluster to answer at all


@contextmanager
def connected(cluster: Cluster, watcher: Watcher) -> Iterator["RayPool"]:
    """Connects to the cluster, or starts one on this machine, for as long as the block runs.

    A connection that this process already has is used, and kept.
    """
    if cluster.address != LOCAL:
        _check_address(cluster.address)
    pool = RayPool(cluster, watcher)
    if ray.is_initialized():
        pool.check_resources()
        yield pool
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    with ExitStack() as stack:
        if cluster.address == LOCAL:
            # A token in the environment keeps others out, and Ray from writing one into the home.
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            logs = tempfile.TemporaryDirectory(prefix="tadam-ray-", ignore_cleanup_errors=True)
            quiet |= {
                "_temp_dir": stack.enter_context(logs),
                "include_dashboard": False,
                "object_store_memory": 100 * 2**20,  # results are small, data is read from disk
            }
        stack.callback(ray.shutdown)
        try:
            with _silence():
                ray.init(cluster.address, **quiet)
        except (Exception, SystemExit) as error:  # it exits where nobody answers
            reason = str(error).strip().partition("\n")[0]
            if cluster.address == LOCAL:
                raise RunFailed(f"Ray did not start: {reason}") from None
            raise UserError(
                f"no connection to Ray at {cluster.address}: {reason}; port, version and token "
                "must be those of the cluster"
            ) from None
        pool.check_resources()
        yield pool


@contextmanager
def _silence() -> Iterator[None]:
    """Sends what C++ code writes to stderr nowhere."""
    before = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _check_address(address: str) -> None:
    """Raises if nobody answers there, or not as Ray does: Ray itself takes minutes to find out."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise UserError(f"`address` must be local, host:port or ray://host:port, got {address!r}")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _ANSWER) as connection:
            if "RAY_USE_TLS" in os.environ:
                return
            # Ray speaks gRPC: HTTP/2, whose servers answer with a frame of type 4, settings.
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
            connection.settimeout(_ANSWER)
            answer = connection.recv(9)
    except (OSError, OverflowError) as error:
        raise UserError(f"no connection to Ray at {address}: {error}") from None
    if answer[3:4] != b"\4":
        raise UserError(
            f"what answers at {address} is not Ray: give the port of 'ray start --head', 6379 "
            "unless set, or ray:// and the client port, 10001 unless set"
        )


class RayPool:
    """Runs jobs as Ray tasks; made by `connected`."""

    def __init__(self, cluster: Cluster, watcher: Watcher) -> None:
        self.cluster, self.watcher = cluster, watcher

    def check_resources(self) -> None:
        """Says so if no machine is large enough for a job, as Ray would wait without a word."""
        wanted = {
            "CPU": self.cluster.cpus,
            "GPU": self.cluster.gpus,
            "memory": self.cluster.memory * 2**30,
        }
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if any(all(node.get(k, 0) >= v for k, v in wanted.items()) for node in nodes):
            return
        lacking = "no machine has the CPUs, GPUs and memory that a job asks for"
        if self.cluster.address == LOCAL:
            raise UserError(f"{lacking}: lower `cpus`, `gpus` or `memory`")
        self.watcher.note(f"{lacking}: waiting for one to join the cluster")

    def run(self, jobs: Sequence[Job[R]]) -> Generator[Ended[R], None, None]:
        attempt: Any = ray.remote(
            num_cpus=self.cluster.cpus,
            num_gpus=self.cluster.gpus,
            memory=int(self.cluster.memory * 2**30),
            max_retries=0,  # we start it again ourselves, to know of it
        )(_attempt)
        environment = {k: v for k, v in os.environ.items() if k.startswith("TADAM_")}
        pending: dict[Any, int] = {}
        deaths = [0] * len(jobs)

        def start(index: int) -> None:
            _offer(jobs[index])
            task = attempt.remote(jobs[index], self.cluster.cpus, Path.cwd(), environment)
            pending[task] = index

        previous = on_terminate(signal.default_int_handler)  # as Ctrl-C; Ray would abort
        try:
            for index in range(len(jobs)):
                start(index)
            while pending:
                ready, _ = ray.wait(list(pending), timeout=_POLL)
                for task in ready:
                    index = pending.pop(task)
                    outcome: R | Exception = _outcome(task)
                    deaths[index] += isinstance(outcome, _Lost)
                    if not isinstance(outcome, _Lost):
                        yield index, outcome
                    elif deaths[index] > self.cluster.retries:
                        yield index, RunFailed(f"{outcome} {deaths[index]} times")
                    else:
                        self.watcher.note(f"{jobs[index].name}: {outcome}, starting it again")
                        start(index)
                started = [jobs[i].name for i in pending.values() if _has_started(jobs[i])]
                self.watcher.running(started, len(jobs) - len(pending), len(jobs))
        except KeyboardInterrupt:
            self.watcher.note("stopping the jobs that run, this may take a minute")
            sentence = f"stopped with {len(jobs) - len(pending)} of {len(jobs)} jobs done"
            if any(job.folder for job in jobs):
                sentence += "; start them again with `resume` to go on"
            raise Interrupted(sentence) from None
        finally:
            self.watcher.stop()
            on_terminate(previous)
            for task in pending:
                ray.cancel(task)  # as Ctrl-C would: a run writes its checkpoint
            if pending:
                ray.wait(list(pending), num_returns=len(pending), timeout=_GRACE)


class _Lost(RunFailed):
    """A job whose worker did not live to end it."""


def _offer(job: Job[Any]) -> None:
    """Puts an empty lock where workers look for it: whoever takes it will write into it."""
    if job.lock:
        job.lock.parent.mkdir(parents=True, exist_ok=True)
        job.lock.write_text("", "utf-8")


def _has_started(job: Job[Any]) -> bool:
    return job.lock is not None and job.lock.exists() and job.lock.stat().st_size > 0


def _outcome(task: Any) -> Any:
    """Result or error of a task that has ended."""
    try:
        outcome = ray.get(task)
    except RayTaskError as mistake:
        if not isinstance(mistake, RaySystemError):
            return mistake
        reason = str(mistake.cause).partition("\n")[0]
        return UserError(
            f"its worker cannot load it ({reason}): install this version of tadam on all machines "
            "of the cluster"
        )
    except RayError as death:
        return _Lost(f"its worker died ({type(death).__name__})")
    return _Lost("its worker was told to stop") if isinstance(outcome, Interrupted) else outcome


def _attempt(job: Job[R], threads: int, folder: Path, environment: dict[str, str]) -> R | Exception:
    """Runs in a worker. What a user can be told comes back as a value, not as a traceback."""
    import torch

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a command with & or nohup ignores it
    torch.set_num_threads(threads)
    os.environ.update(environment)
    if folder.is_dir():  # paths relative to where the command was given
        os.chdir(folder)
    try:
        if job.lock and not job.lock.exists():
            raise UserError(
                f"{socket.gethostname()} does not see {job.lock.parent}: run folders must be on "
                "storage that all machines of the cluster share"
            )
        return job.run(_WAIT)
    except (UserError, RunFailed, OSError, MemoryError) as error:
        return error
