"""Splits a step's batches into pieces, one per process or per task, each with its own statistics.

A piece is normalised by its own statistics. Gradients and running statistics are means over all
pieces, so it does not matter where a piece is computed: with one piece per task, a single process
gets the result that many would.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tadam.config import Config
from tadam.distributed.ranks import Ranks
from tadam.errors import UserError
from tadam.methods.base import Update


@dataclass(frozen=True)
class Piece:
    """Items `start` to `stop` - 1 of a batch.

    Attributes:
        weight: Factor for the piece's mean. Summed within each process and averaged over
            processes, the weighted means give the mean over the whole batch.
        last: Whether this is the process's last piece of the batch.
    """

    start: int
    stop: int
    weight: float
    last: bool

    @property
    def items(self) -> slice:
        return slice(self.start, self.stop)


class Pieces:
    """Splits batches, and keeps the running statistics consistent."""

    def __init__(
        self, config: Config, updates: Sequence[Update], buffers: Sequence[Tensor], ranks: Ranks
    ) -> None:
        tasks = config.episode.tasks
        self._ranks = ranks
        self._count = tasks if config.backbone.statistics == "task" else ranks.size
        if tasks % ranks.size:
            raise UserError(
                f"episode.tasks is {tasks}, which {ranks.size} processes cannot share evenly: "
                f"set it to a multiple of {ranks.size}, or start fewer processes"
            )
        for update in updates:
            if 0 < update.images < self._count:
                raise UserError(
                    f"{update.name}.batch_size is {update.images}, but the batch is cut into "
                    f"{self._count} pieces: set it to at least {self._count}"
                )
        self._buffers = list(buffers)
        self._statistics = [buffer for buffer in buffers if buffer.is_floating_point()]

    def of(self, total: int) -> Iterator[Piece]:
        """This process's pieces of a batch of `total` items.

        Every piece starts from the same running statistics; afterwards these are the mean over the
        pieces.
        """
        own = [self._piece(k, total) for k in self._ranks.share(self._count)]
        if len(own) > 1:
            return self._averaging(own)
        return iter(own)

    def _piece(self, k: int, total: int) -> Piece:
        start, stop = k * total // self._count, (k + 1) * total // self._count
        last = k + 1 == self._ranks.share(self._count).stop
        return Piece(start, stop, (stop - start) * self._ranks.size / total, last)

    def _averaging(self, own: list[Piece]) -> Iterator[Piece]:
        before = [buffer.clone() for buffer in self._buffers]
        sums = [torch.zeros_like(statistic) for statistic in self._statistics]
        for piece in own:
            for buffer, value in zip(self._buffers, before, strict=True):
                buffer.copy_(value)
            yield piece
            for value, statistic in zip(sums, self._statistics, strict=True):
                value += statistic
        for statistic, value in zip(self._statistics, sums, strict=True):
            statistic.copy_(value / len(own))

    def average_statistics(self) -> None:
        """Averages the running statistics over all processes.

        Training never reads them and each pass updates them linearly, so once per step is as good
        as once per pass.
        """
        self._ranks.average(self._statistics)
