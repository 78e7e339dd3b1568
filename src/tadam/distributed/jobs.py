"""Independent jobs, run one after another here or in parallel on Ray; each ends exactly once."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from tadam.errors import Interrupted, RunFailed, UserError
from tadam.system.folder_lock import locked

R = TypeVar("R")


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster and the resources each job gets there.

    Attributes:
        address: `local` to start one on this machine, else host:port or ray://host:port.
        cpus: CPUs, and torch threads, per job.
        gpus: GPUs per job; with a fraction, jobs share a GPU.
        memory: GiB that Ray reserves per job; 0 to ignore memory.
        retries: How many times to restart a job whose worker died.
    """

    address: str
    cpus: int = 1
    gpus: float = 0.0
    memory: float = 0.0
    retries: int = 3


@dataclass(frozen=True)
class Job(Generic[R]):
    """A call that does not depend on any other.

    If its worker dies the call is repeated, so it must resume from whatever is in its folder.

    Attributes:
        name: Name used in messages.
        function: Must be importable by name, for workers on other machines.
        arguments: Keyword arguments.
        folder: The folder it writes to, if any; one process at a time may do so.
    """

    name: str
    function: Callable[..., R]
    arguments: Mapping[str, Any]
    folder: Path | None = None

    @property
    def lock(self) -> Path | None:
        """Lock file next to the folder; names the holder, and is removed when the job succeeds."""
        return self.folder and self.folder.with_name(f".{self.folder.name}.lock")

    def run(self, wait: float = 0.0) -> R:
        """Makes the call, after waiting up to `wait` seconds for the folder to be free."""
        if self.lock is None:
            return self.function(**self.arguments)
        assert self.folder is not None
        with locked(self.lock, self.folder, wait, keep=True):
            return self.function(**self.arguments)


class Watcher:
    """Receives the progress of jobs; this base class ignores it."""

    def running(self, names: Sequence[str], done: int, total: int) -> None:
        """Jobs `names` are running; `done` of `total` have ended."""

    def note(self, text: str) -> None:
        """Reports something the user may want to know."""

    def stop(self) -> None:
        """No further reports will come for now."""


#: How a job ended: its index, and its result or error.
Ended = tuple[int, R | Exception]


class Pool(Protocol):
    """Anything that can run jobs."""

    watcher: Watcher

    def run(self, jobs: Sequence[Job[R]]) -> Generator[Ended[R], None, None]:
        """Yields each job once, as it ends; closing the generator stops the rest."""
        ...


class Here:
    """Runs jobs one after another in this process."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher

    def run(self, jobs: Sequence[Job[R]]) -> Generator[Ended[R], None, None]:
        for index, job in enumerate(jobs):
            self.watcher.running([job.name], index, len(jobs))
            try:
                outcome: R | Exception = job.run()
            except Interrupted as error:
                raise Interrupted(f"{job.name}: {error}") from None
            except Exception as error:
                outcome = error
            yield index, outcome


@contextmanager
def open_pool(
    cluster: Cluster | None, watcher: Watcher | None = None, alike: bool = False
) -> Iterator[Pool]:
    """Opens a pool in this process, or connects to a cluster.

    Args:
        cluster: None for this process.
        watcher: Told what happens.
        alike: Whether there are many short jobs that share what they load: workers are then kept
            from one to the next, by Ray Data. A client (ray://) has no Ray Data, and does without.
    """
    watcher = watcher or Watcher()
    if cluster is None:
        yield Here(watcher)
        return
    from tadam.distributed.ray_pool import RayPool, connected

    kind: type[RayPool] = RayPool
    if alike and not cluster.address.startswith("ray://"):
        from tadam.distributed.ray_data import RayDataPool as kind
    with connected(cluster, watcher, kind) as pool:
        yield pool


def run_jobs(
    jobs: Sequence[Job[R]], pool: Pool, on_result: Callable[[int, R], None] | None = None
) -> list[R]:
    """Runs all jobs and returns their results in the order of `jobs`.

    A failed job does not stop the others; its error is raised after they end.

    Args:
        jobs: Independent, so in any order.
        pool: From `open_pool`.
        on_result: Called with (index, result) as each job succeeds.
    """
    results: dict[int, R] = {}
    failures: dict[int, Exception] = {}
    ended = pool.run(jobs)
    with closing(ended):
        for index, outcome in ended:
            if isinstance(outcome, Exception):
                failures[index] = outcome
                if len(results) + len(failures) < len(jobs):
                    pool.watcher.note(f"{jobs[index].name} failed, continuing with the others")
                continue
            results[index] = outcome
            if lock := jobs[index].lock:
                lock.unlink(missing_ok=True)
            if on_result:
                on_result(index, outcome)
    if failures:
        raise _failure([(jobs[index].name, failures[index]) for index in sorted(failures)])
    return [results[index] for index in range(len(jobs))]


def _failure(failures: Sequence[tuple[str, Exception]]) -> Exception:
    """One error for all failures: explains the first and names the others."""
    (name, error), *others = failures
    sentence = f"{name}: {error}"
    if others:
        sentence += f" (also failed: {', '.join(other for other, _ in others)})"
    if isinstance(error, UserError):
        return UserError(sentence)
    if isinstance(error, RunFailed | OSError | MemoryError):
        return RunFailed(sentence)
    error.add_note(sentence)  # unexpected: keep the traceback
    return error
