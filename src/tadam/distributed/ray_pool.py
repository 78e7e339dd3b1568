"""Jobs on a Ray cluster: each job is a Ray task, which we restart if its worker dies."""

import logging
import os
import secrets
import signal
import socket
import tempfile
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tadam.distributed.jobs import Cluster, Ended, Job, Watcher
from tadam.errors import Interrupted, RunFailed, UserError
from tadam.system.interruption import on_terminate

# Read when Ray is imported: keeps its messages about workers out of our results on stdout.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what ends a job is told by us
try:
    import ray
    from ray.exceptions import RayError, RaySystemError, RayTaskError
except ImportError:
    raise UserError("jobs on a cluster need Ray: pip install 'tadam-fewshot[cluster]'") from None

R = TypeVar("R")

LOCAL = "local"
_POLL = 1.0  # seconds between checks for started jobs
_GRACE = 60.0  # seconds for cancelled jobs to write their checkpoints
#: Seconds an attempt waits for the previous one. The cluster gives up on a disconnected machine,
#: and the machine on the cluster, within about a minute of each other.
_WAIT = 120.0
_ANSWER = 5.0  # seconds for a cluster to answer at all


@contextmanager
def connected(
    cluster: Cluster, watcher: Watcher, kind: "type[RayPool] | None" = None
) -> Iterator["RayPool"]:
    """Connects to the cluster, or starts one on this machine, while the block runs.

    If this process is already connected, that connection is used and kept open.

    Args:
        cluster: Where it is, and what a job gets.
        watcher: Told what happens.
        kind: The class of the pool, `RayPool` by default.
    """
    if cluster.address != LOCAL:
        _check_address(cluster.address)
    pool = (kind or RayPool)(cluster, watcher)
    if ray.is_initialized():
        pool.check_resources()
        yield pool
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    with ExitStack() as stack:
        if cluster.address == LOCAL:
            # A token keeps others out, and stops Ray from writing one to the home folder.
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            logs = tempfile.TemporaryDirectory(prefix="tadam-ray-", ignore_cleanup_errors=True)
            quiet |= {
                "_temp_dir": stack.enter_context(logs),
                "include_dashboard": False,
                "object_store_memory": 100 * 2**20,  # results are small and data is read from disk
            }
        stack.callback(ray.shutdown)
        try:
            with _silence():
                _init(cluster.address, quiet)
        except (Exception, SystemExit) as error:  # it exits if nobody answers
            reason = str(error).strip().partition("\n")[0]
            if cluster.address == LOCAL:
                raise RunFailed(f"Ray did not start: {reason}") from None
            raise UserError(
                f"no connection to Ray at {cluster.address}: {reason}; port, version and token "
                "must match the cluster's"
            ) from None
        pool.check_resources()
        yield pool


def _init(address: str, settings: dict[str, Any]) -> None:
    """Connects; one that is to start here gets a second chance: two at once may want one port."""
    try:
        ray.init(address, **settings)
    except RuntimeError:
        if address != LOCAL:
            raise
        ray.shutdown()
        ray.init(address, **settings)


@contextmanager
def _silence() -> Iterator[None]:
    """Discards what C++ code writes to stderr."""
    before = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _check_address(address: str) -> None:
    """Raises if nothing like Ray answers there; Ray itself takes minutes to find out."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise UserError(f"`address` must be local, host:port or ray://host:port, got {address!r}")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _ANSWER) as connection:
            if "RAY_USE_TLS" in os.environ:
                return
            # Ray speaks gRPC over HTTP/2, whose servers answer with a SETTINGS frame, type 4.
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
            connection.settimeout(_ANSWER)
            answer = connection.recv(9)
    except (OSError, OverflowError) as error:
        raise UserError(f"no connection to Ray at {address}: {error}") from None
    if answer[3:4] != b"\4":
        raise UserError(
            f"the server at {address} is not Ray: give the port of 'ray start --head', 6379 "
            "unless set, or ray:// and the client port, 10001 unless set"
        )


class RayPool:
    """Runs jobs as Ray tasks; created by `connected`."""

    def __init__(self, cluster: Cluster, watcher: Watcher) -> None:
        self.cluster, self.watcher = cluster, watcher

    def check_resources(self) -> None:
        """Reports if no machine is large enough for a job; Ray would wait silently."""
        wanted = {
            "CPU": self.cluster.cpus,
            "GPU": self.cluster.gpus,
            "memory": self.cluster.memory * 2**30,
        }
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if any(all(node.get(k, 0) >= v for k, v in wanted.items()) for node in nodes):
            return
        lacking = "no machine has the CPUs, GPUs and memory that a job needs"
        if self.cluster.address == LOCAL:
            raise UserError(f"{lacking}: lower `cpus`, `gpus` or `memory`")
        self.watcher.note(f"{lacking}: waiting for one to join the cluster")

    def run(self, jobs: Sequence[Job[R]]) -> Generator[Ended[R], None, None]:
        task_of: Any = ray.remote(
            num_cpus=self.cluster.cpus,
            num_gpus=self.cluster.gpus,
            memory=int(self.cluster.memory * 2**30),
            max_retries=0,  # we restart it ourselves, so that we know about it
        )(attempt)
        environment = {k: v for k, v in os.environ.items() if k.startswith("TADAM_")}
        pending: dict[Any, int] = {}
        deaths = [0] * len(jobs)

        def start(index: int) -> None:
            _offer(jobs[index])
            task = task_of.remote(jobs[index], self.cluster.cpus, Path.cwd(), environment)
            pending[task] = index

        previous = on_terminate(signal.default_int_handler)  # like Ctrl-C; Ray would abort
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
                        self.watcher.note(f"{jobs[index].name}: {outcome}, restarting it")
                        start(index)
                started = [jobs[i].name for i in pending.values() if _has_started(jobs[i])]
                self.watcher.running(started, len(jobs) - len(pending), len(jobs))
        except KeyboardInterrupt:
            self.watcher.note("stopping the running jobs, which may take a minute")
            sentence = f"stopped with {len(jobs) - len(pending)} of {len(jobs)} jobs done"
            if any(job.folder for job in jobs):
                sentence += "; start them again with `resume` to continue"
            raise Interrupted(sentence) from None
        finally:
            self.watcher.stop()
            on_terminate(previous)
            for task in pending:
                ray.cancel(task)  # like Ctrl-C: a run writes its checkpoint
            if pending:
                ray.wait(list(pending), num_returns=len(pending), timeout=_GRACE)


class _Lost(RunFailed):
    """A job whose worker died before finishing it."""


def _offer(job: Job[Any]) -> None:
    """Creates an empty lock file where workers look for it; whoever takes the lock writes to it."""
    if job.lock:
        job.lock.parent.mkdir(parents=True, exist_ok=True)
        job.lock.write_text("", "utf-8")


def _has_started(job: Job[Any]) -> bool:
    return job.lock is not None and job.lock.exists() and job.lock.stat().st_size > 0


def _outcome(task: Any) -> Any:
    """The result or error of a finished task."""
    try:
        outcome = ray.get(task)
    except RayTaskError as mistake:
        if not isinstance(mistake, RaySystemError):
            return mistake
        reason = str(mistake.cause).partition("\n")[0]
        return UserError(
            f"its worker cannot load it ({reason}): install this version of tadam on all machines "
            "in the cluster"
        )
    except RayError as death:
        return _Lost(f"its worker died ({type(death).__name__})")
    return _Lost("its worker was told to stop") if isinstance(outcome, Interrupted) else outcome


def attempt(job: Job[R], threads: int, folder: Path, environment: dict[str, str]) -> R | Exception:
    """Runs in a worker. User-facing errors come back as values, not tracebacks."""
    import torch

    if threading.current_thread() is threading.main_thread():  # not so in an actor
        signal.signal(signal.SIGINT, signal.default_int_handler)  # & and nohup make it ignored
    torch.set_num_threads(threads)
    os.environ.update(environment)
    if folder.is_dir():  # paths are relative to where the command was run
        os.chdir(folder)
    try:
        if job.lock and not job.lock.exists():
            raise UserError(
                f"{socket.gethostname()} cannot see {job.lock.parent}: run folders must be on "
                "storage shared by all machines in the cluster"
            )
        return job.run(_WAIT)
    except (UserError, RunFailed, OSError, MemoryError) as error:
        return error
