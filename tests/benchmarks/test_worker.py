"""Measuring processes: their settings, their exceptions, and how they may die."""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tadam import native
from tadam.benchmarks.worker import Worker, in_turn, shortest, speedup
from tadam.errors import RunFailed


def test_a_worker_is_another_process_with_its_own_threads_and_core() -> None:
    with Worker(2, native=False) as worker:
        assert worker(os.getpid) != os.getpid()
        assert worker(torch.get_num_threads) == 2
        assert not worker(native.available)
        with pytest.raises(ZeroDivisionError):
            worker(divmod, 1, 0)
        assert worker(divmod, 7, 2) == (3, 1)  # it keeps working after an error
        with pytest.raises(RunFailed, match="memory ran out"):
            worker(signal.raise_signal, signal.SIGKILL)


@pytest.mark.skipif(not native.available(), reason="the native core was not built")
def test_a_worker_uses_the_native_core_unless_told_otherwise() -> None:
    with Worker(1) as worker:
        assert worker(native.available)


def test_variants_take_turns_after_a_round_that_does_not_count() -> None:
    calls: list[tuple[str, float]] = []

    def variant(name: str) -> Callable[..., Any]:
        def measure(seconds: float) -> float:
            calls.append((name, seconds))
            return float(len(calls))

        return measure

    times = in_turn({"a": variant("a"), "b": variant("b")}, rounds=2, seconds=0.5)
    assert calls == [(name, s) for s in (0.0, 0.5, 0.5) for name in ("a", "b")]
    assert times == {"a": [3.0, 5.0], "b": [4.0, 6.0]}


def test_speedup_is_the_median_of_the_rounds_ratios() -> None:
    assert speedup([1.0, 2.0, 1.0], [2.0, 6.0, 10.0]) == 3.0


def test_the_shortest_call_counts_and_there_is_at_least_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([0.0, 5.0, 10.0, 12.0, 20.0, 24.0])  # calls of 5, 2 and 4 seconds
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    numbers: list[int] = []
    assert shortest(numbers.append, seconds=10) == 2.0
    assert numbers == [0, 1, 2]
    monkeypatch.undo()
    assert shortest(lambda t: None, seconds=0.0) >= 0.0
