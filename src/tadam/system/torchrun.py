"""What torchrun tells a process about its place among the others; needs no torch."""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """One process of a run.

    Attributes:
        rank: Its number among all; number 0 writes files and speaks.
        size: How many there are.
        local_rank: Its number on this machine, and so its GPU.
        launched: Whether torchrun started it.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    launched: bool = False


def place() -> Place:
    """Where this process stands; alone, unless torchrun started it."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return Place()
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    rank, size, local_rank = (int(os.environ[name]) for name in names)
    return Place(rank, size, local_rank, launched=True)
