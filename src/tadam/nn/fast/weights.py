"""What is computed from a weight alone is computed once, as long as the weight stays the same."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from tadam.native.convolution import pack


class WeightCache:
    """Results by weight: its identity and version, and what was computed.

    Not by address: memory of a weight that is gone is used again for the next. A weight is not
    kept alive, and its results go with it.
    """

    def __init__(self) -> None:
        self._results = WeakIdKeyDictionary()

    def get(self, weight: Tensor, kind: str, compute: Callable[[], Tensor]) -> Tensor:
        """The result of `compute`, or what it was for the same weight and kind."""
        if weight.is_inference():  # it has no version, so a change would go unnoticed
            return compute()
        version = weight._version
        of_weight: dict[str, tuple[int, Tensor]] = self._results.setdefault(weight, {})
        found = of_weight.get(kind)
        if found is None or found[0] != version:
            found = of_weight[kind] = (version, compute())
        return found[1]


_local = threading.local()


@contextmanager
def constant_weights() -> Iterator[None]:
    """Inside the block, weights are packed for the kernels once, not in each pass.

    A training step uses every weight in several passes, forward and backward. A weight that
    changes is noticed, unless it is changed through `.data`.
    """
    outer = getattr(_local, "cache", None)
    _local.cache = WeightCache() if outer is None else outer
    try:
        yield
    finally:
        _local.cache = outer


def packed(weight: Tensor, forward: bool = True) -> Tensor:
    """`pack(weight, forward)`, once in a block of `constant_weights`.

    In a backward pass autograd gives a parameter back as the object it was; of a weight that was
    itself computed it makes a new object, which is packed anew.
    """
    cache: WeightCache | None = getattr(_local, "cache", None)
    if cache is None:
        return pack(weight, forward)
    kind = "forward" if forward else "backward"
    return cache.get(weight, kind, lambda: pack(weight, forward))
