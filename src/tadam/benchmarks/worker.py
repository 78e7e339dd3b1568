"""Fresh processes to measure in, taking turns.

The native core, the allocator setting and peak memory are per process, so no two variants share a
process. Variants take turns, so that other load on the machine affects them all alike.
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
        threads: Threads for PyTorch and the native core.
        native: Whether it may use the native core.
    """

    def __init__(self, threads: int, native: bool = True) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, threads, native), daemon=True)
        with _deaf_to_interruption():  # we handle Ctrl-C and end the process ourselves
            self._process.start()
        other.close()

    def __call__(self, work: Callable[..., R], *arguments: object) -> R:
        """Runs a module-level function in the process; its exceptions are raised here."""
        try:
            self._pipe.send((work, arguments))
            fine, result = self._pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise RunFailed(
                "a measuring process died, probably because memory ran out: "
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
    """Makes any process started in the block ignore Ctrl-C from the beginning."""
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
    """Time of the fastest call, repeating for about `seconds` and at least once."""
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
    """The times of each variant, round by round, after a warm-up round.

    Args:
        variants: Functions that measure for a given time and return the seconds of one call.
        rounds: Turns for each.
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
    """How many times as fast ours is: the median of the per-round ratios."""
    return statistics.median(b / a for a, b in zip(ours, others, strict=True))
