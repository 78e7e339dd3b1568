"""Attempts of a run: all processes agree on the number, whatever earlier ones left behind."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore, Store

from tadam.distributed.attempt import attempt_number

SIZE = 4


def attempt(store: Store, delays: dict[int, float]) -> list[int]:
    """The attempt number each rank arrives at, starting after its delay."""

    def rank(number: int) -> int:
        time.sleep(delays.get(number, 0.0))
        return attempt_number(store, number, SIZE)

    with ThreadPoolExecutor(SIZE) as pool:
        return list(pool.map(rank, range(SIZE)))


def test_every_attempt_has_its_own_number_whoever_comes_first() -> None:
    store = HashStore()
    store.set_timeout(timedelta(seconds=10))
    orders: tuple[dict[int, float], ...] = ({}, {0: 0.1}, {1: 0.1}, {0: 0.05, 3: 0.1})
    assert [attempt(store, delays) for delays in orders] == [[n] * SIZE for n in (1, 2, 3, 4)]


def test_processes_that_died_while_asking_confuse_nobody() -> None:
    store = HashStore()
    store.set_timeout(timedelta(seconds=0.2))
    died = [threading.Thread(target=_ask_in_vain, args=(store, rank)) for rank in (1, 3)]
    for thread in died:
        thread.start()
    for thread in died:
        thread.join()
    store.set_timeout(timedelta(seconds=10))
    assert attempt(store, {1: 0.1, 3: 0.1}) == [1] * SIZE


def _ask_in_vain(store: Store, rank: int) -> None:
    with pytest.raises(dist.DistStoreError):
        attempt_number(store, rank, SIZE)


def test_rank_0_does_not_wait_forever() -> None:
    store = HashStore()
    store.set_timeout(timedelta(seconds=0.1))
    with pytest.raises(dist.DistStoreError, match="did not join"):
        attempt_number(store, 0, SIZE)
