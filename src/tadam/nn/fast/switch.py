"""The one switch of all fused and native paths."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_local = threading.local()


@contextmanager
def plain_autograd() -> Iterator[None]:
    """Inside the block, networks compute by PyTorch's own operations only.

    Gradients written by hand have no second derivatives, which methods like MAML need: run the
    forward pass in this block, then differentiate with `create_graph=True` inside or outside of it.
    """
    before = getattr(_local, "plain", False)
    _local.plain = True
    try:
        yield
    finally:
        _local.plain = before


def plain_wanted() -> bool:
    """Whether this thread is to compute plainly: by `plain_autograd` or inside of `torch.func`."""
    return getattr(_local, "plain", False) or torch._C._are_functorch_transforms_active()


def refuse_second_order() -> None:
    """For the start of a backward pass: raises if its gradients are to be differentiated again."""
    if torch.is_grad_enabled():  # in a backward pass only with create_graph=True
        raise RuntimeError(
            "the fused networks have no second derivatives: run the forward pass inside "
            "tadam.nn.fast.plain_autograd(), or leave out create_graph"
        )
