"""Independent jobs, run one after the other here or all at once on Ray: each of them ends once."""

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
    """A Ray cluster, and what of it every job gets.

    Attributes:
        address: `local` to start one on this machine, else host:port or ray://host:port.
        cpus: CPUs, and torch threads.
        gpus: GPUs; fractions share one.
        memory: GiB that Ray sets aside; 0 to leave memory out of the reckoning.
        retries: How often a job is started again after its worker died.
    """

    address: str
    cpus: int = 1
    gpus: float = 0.0
    memory: float = 0.0
    retries: int = 3


@dataclass(frozen=True)
class Job(Generic[R]):
    """A call that depends on no other.

    It is made again if its worker dies, so it has to go on with what it finds in its folder.

    Attributes:
        name: What messages call it.
        function: Importable by its name, for workers on other machines.
        arguments: By keyword.
        folder: What it writes to, if anything: one process at a time does.
    """

    name: str
    function: Callable[..., R]
    arguments: Mapping[str, Any]
    folder: Path | None = None

    @property
    def lock(self) -> Path | None:
        """Beside the folder; says who has it, and is removed when the job has succeeded."""
        return self.folder and self.folder.with_name(f".{self.folder.name}.lock")

    def run(self, wait: float = 0.0) -> R:
        """Makes the call, after at most `wait` seconds for another process to leave the folder."""
        if self.lock is None:
            return self.function(**self.arguments)
        assert self.folder is not None
        with locked(self.lock, self.folder, wait, keep=True):
            return self.function(**self.arguments)


class Watcher:
    """Is told how jobs get on; this one does not care."""

    def running(self, names: Sequence[str], done: int, total: int) -> None:
        """These are under way, `done` of `total` have ended."""

    def note(self, text: str) -> None:
        """Something that a person may want to know."""

    def stop(self) -> None:
        """No more is to come for now."""


#: How a job ended: its index, and its result or what went wrong instead.
Ended = tuple[int, R | Exception]


class Pool(Protocol):
    """Whatever can run jobs."""

    watcher: Watcher

    def run(self, jobs: Sequence[Job[R]]) -> Generator[Ended[R], None, None]:
        """Yields every job once, as it ends; closing the generator stops the others."""
        ...


class Here:
    """Runs jobs one after the other in this process."""

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
def open_pool(cluster: Cluster | None, watcher: Watcher | None = None) -> Iterator[Pool]:
    """This process, or a connection to a cluster."""
    watcher = watcher or Watcher()
    if cluster is None:
        yield Here(watcher)
        return
    from tadam.distributed.ray_pool import connected

    with connected(cluster, watcher) as pool:
        yield pool


def run_jobs(
    jobs: Sequence[Job[R]], pool: Pool, on_result: Callable[[int, R], None] | None = None
) -> list[R]:
    """Runs all jobs and returns their results in the order of `jobs`.

    A job that fails does not keep the others from ending; its error is raised after them.

    Args:
        jobs: In any order, as none waits for another.
        pool: From `open_pool`.
        on_result: Called with index and result as each job ends.
    """
    results: dict[int, R] = {}
    failures: dict[int, Exception] = {}
    ended = pool.run(jobs)
    with closing(ended):
        for index, outcome in ended:
            if isinstance(outcome, Exception):
                failures[index] = outcome
                if len(results) + len(failures) < len(jobs):
                    pool.watcher.note(f"{jobs[index].name} failed, going on with the others")
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
    """One error for all of them, that says what happened to the first."""
    (name, error), *others = failures
    sentence = f"{name}: {error}"
    if others:
        sentence += f" (failed as well: {', '.join(other for other, _ in others)})"
    if isinstance(error, UserError):
        return UserError(sentence)
    if isinstance(error, RunFailed | OSError | MemoryError):
        return RunFailed(sentence)
    error.add_note(sentence)  # nobody foresaw it: keep the traceback
    return error
