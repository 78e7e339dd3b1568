"""What is computed from a weight alone is computed once, as long as no weight changes."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

_local = threading.local()


@contextmanager
def constant_weights() -> Iterator[None]:
    """A promise that no weight changes inside the block.

    A training step uses every weight in several passes, forward and backward.
    """
    outer = getattr(_local, "results", None)
    _local.results = {} if outer is None else outer
    try:
        yield
    finally:
        _local.results = outer


def reused(weight: Tensor, kind: str, compute: Callable[[], Tensor]) -> Tensor:
    """The result of `compute`, or what it was for this weight and kind in the same block."""
    results: dict[tuple[int, str], Tensor] | None = getattr(_local, "results", None)
    if results is None:
        return compute()
    key = (weight.data_ptr(), kind)
    if key not in results:
        results[key] = compute()
    return results[key]
