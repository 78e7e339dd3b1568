"""How many threads PyTorch uses for work that is too small to share."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

#: Rows from which on sharing pays.
_ROWS = 4096


@contextmanager
def few_threads(rows: int) -> Iterator[None]:
    """One thread inside, unless there are many rows.

    Beside a busy process, threads that wait for each other after every small step make it twenty
    times slower.
    """
    before = torch.get_num_threads()
    if rows < _ROWS:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
