"""Reads a process's rank and group size from torchrun, without importing torch."""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """One process of a run.

    Attributes:
        rank: Its number in the whole run; rank 0 writes files and prints.
        size: Number of processes.
        local_rank: Its number on this machine, and hence its GPU.
        launched: Whether torchrun started it.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    launched: bool = False


def place() -> Place:
    """This process's place in the run; alone unless torchrun started it."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return Place()
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    rank, size, local_rank = (int(os.environ[name]) for name in names)
    return Place(rank, size, local_rank, launched=True)
