"""Results since the last log record, kept on the device until they are logged."""

import time
from typing import Any

import torch
from torch import Tensor

from tadam.distributed.ranks import Ranks
from tadam.training.trainer import StepResult


class Window:
    """The steps between two log records."""

    def __init__(self) -> None:
        self._results: list[StepResult] = []
        self._started = time.monotonic()

    def add(self, result: StepResult) -> None:
        self._results.append(result)

    def summary(self, ranks: Ranks) -> dict[str, Any]:
        """Means over steps and processes; waits for the device."""
        values: dict[str, list[Tensor]] = {}
        for result in self._results:
            for name, value in result.numbers.items():
                values.setdefault(name, []).append(value)
        names = sorted(values)  # the same order in every process
        record: dict[str, Any] = {}
        if names:
            means = torch.stack([torch.stack(values[name]).mean() for name in names])
            ranks.average([means])
            record = dict(zip(names, means.tolist(), strict=True))
        images = sum(r.images for r in self._results)
        elapsed = max(time.monotonic() - self._started, 1e-9)
        return {"images_per_second": round(images / elapsed, 1), **record}
