"""Fresh processes to measure in, and turns between them.

The native core, the allocator's setting and peak memory belong to a whole process, so no two
variants share one. Variants take turns, so that whatever else the machine does hits all alike.
"""

import itertools
import multiprocessing
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Self, TypeVar

import torch

from tadam.errors import RunFailed

R = TypeVar("R")


class Worker:
    """A process that runs one function at a time and ends with the `with` block.

    Args:
        threads: Of PyTorch and the native core.
        native: Whether the native core may be used there.
    """

    def __init__(self, threads: int, native: bool = True) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, threads, native), daemon=True)
        with _deaf_to_interruption():  # Ctrl-C is ours: we end the process then
            self._process.start()
        other.close()

    def __call__(self, work: Callable[..., R], *arguments: object) -> R:
        """Runs a function of a module there; what it raises is raised here."""
        try:
            self._pipe.send((work, arguments))
            fine, result = self._pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise RunFailed(
                "a measuring process died, probably for want of memory: "
                "close other programs, or choose smaller `widths`, or fewer parts with `parts`"
            ) from None
        if not fine:
            raise result
        answer: R = result
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.join()
        self._pipe.close()


@contextmanager
def _deaf_to_interruption() -> Iterator[None]:
    """A process that starts meanwhile ignores Ctrl-C from its first moment on."""
    try:
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _serve(pipe: Connection, threads: int, native: bool) -> None:
    if not native:
        os.environ["TADAM_NATIVE"] = "0"
    torch.set_num_threads(threads)
    while True:
        try:
            work, arguments = pipe.recv()
        except EOFError:
            return
        answer: tuple[bool, Any]
        try:
            answer = (True, work(*arguments))
        except Exception as error:
            answer = (False, error)
        pipe.send(answer)


def shortest(work: Callable[[int], object], seconds: float) -> float:
    """Seconds of the shortest of the calls that fit into a time; there is at least one."""
    times: list[float] = []
    for t in itertools.count():
        start = time.perf_counter()
        work(t)
        times.append(time.perf_counter() - start)
        if sum(times) >= seconds:
            break
    return min(times)


def in_turn(
    variants: Mapping[str, Callable[[float], float]], rounds: int, seconds: float
) -> dict[str, list[float]]:
    """The times of each variant, round by round, after a round that warms up.

    Args:
        variants: Functions from a time to measure for to the seconds of one call.
        rounds: How many turns each has.
        seconds: Length of a turn.
    """
    times: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds + 1):
        for name, measure in variants.items():
            result = measure(seconds if number else 0.0)
            if number:
                times[name].append(result)
    return times


def speedup(ours: Sequence[float], others: Sequence[float]) -> float:
    """How many times as fast ours is: the median of the rounds' ratios."""
    return statistics.median(b / a for a, b in zip(ours, others, strict=True))
