"""Ranks that are threads of this process: they can gather, and nothing else."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tadam.distributed.ranks import Ranks
from tadam.system.torchrun import Place

T = TypeVar("T")


class ThreadRanks(Ranks):
    def __init__(self, place: Place, values: list[Any], barrier: threading.Barrier) -> None:
        super().__init__(place)
        self._values, self._barrier = values, barrier

    def gather(self, value: T) -> list[T]:
        self._values[self.rank] = value
        self._barrier.wait(60)
        values = list(self._values)
        self._barrier.wait(60)
        return values


def in_threads(
    size: int, work: Callable[[ThreadRanks], T], on_each_machine: int | None = None
) -> list[T]:
    """What `work` returns on each rank."""
    values, barrier = [None] * size, threading.Barrier(size)
    ranks = [
        ThreadRanks(Place(rank, size, rank % (on_each_machine or size)), values, barrier)
        for rank in range(size)
    ]
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, ranks))
