"""Keeps a forked child from waiting for threads that only its parent has.

PyTorch's thread pool does not survive a fork: the first parallel operation in the child would wait
for ever. A child therefore computes with one thread, which needs no pool.
"""

import functools
import os

import torch


@functools.cache
def one_thread_after_fork() -> None:
    """From now on, children that this process forks use one PyTorch thread."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_one_thread)


def _one_thread() -> None:
    torch.set_num_threads(1)
