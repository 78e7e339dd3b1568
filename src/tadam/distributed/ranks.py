"""Many processes as one run: how they agree, gather and average (`torchrun -m tadam train`).

Every process ("rank") takes its own share of each step. Only rank 0 prints and touches the run
folder.
"""

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from types import FrameType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from tadam.distributed.attempt import attempt_number
from tadam.errors import LostProcess, RunFailed, UserError
from tadam.system.interruption import on_terminate
from tadam.system.torchrun import Place, place

T = TypeVar("T")
#: How long a rank waits for another, which may be reading a large data set for the first time. A
#: dead rank is noticed at once, when its connection closes.
_PATIENCE = timedelta(hours=3)
#: Maps inputs to logits: a network, possibly wrapped in DistributedDataParallel.
Logits = Callable[..., Tensor]


class Ranks:
    """One process's view of the processes in a run; without torchrun there is only one.

    Objects and flags travel over gloo, which never waits for a GPU; tensors over gloo or NCCL.
    """

    def __init__(
        self,
        here: Place | None = None,
        store: dist.Store | None = None,  # type: ignore[name-defined]
    ) -> None:
        here = here or Place()
        self.rank, self.size, self._local_rank = here.rank, here.size, here.local_rank
        self._store = store
        self._nccl: dist.ProcessGroup | None = None

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    @property
    def begun(self) -> bool:
        """Whether the work had begun before torchrun restarted these processes.

        torchrun also restarts an attempt that was refused, which must not resume an existing run.
        """
        return self._store is not None and bool(self._store.check(["begun"]))

    def begin(self) -> None:
        """From now on, another attempt resumes where this one stops."""
        if self._store is not None:
            self._store.set("begun", "")

    def share(self, total: int) -> range:
        """This rank's share of `range(total)`."""
        return range(self.rank * total // self.size, (self.rank + 1) * total // self.size)

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """Turns an error on one rank into an error on all ranks, reported once."""
        if self.size == 1:
            yield
            return
        mine: tuple[type[Exception], str] | None = None
        try:
            yield
        except UserError as error:
            mine = UserError, str(error)
        except (RunFailed, OSError, MemoryError) as error:
            mine = RunFailed, str(error) or "out of memory"
        for rank, found in enumerate(self.gather(mine)):
            if found is not None:
                kind, sentence = found
                raise kind(sentence if rank == 0 else f"rank {rank}: {sentence}")

    def first_here(self, work: Callable[[], object]) -> None:
        """Runs `work`, such as filling a cache, in one process per machine before the others."""
        if self.size > 1:
            with self.agreed():
                if self._local_rank == 0:
                    work()

    def gather(self, value: T) -> list[T]:
        """Every rank's value, on every rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on any rank."""
        if self.size == 1:
            return flag
        flags = torch.tensor(int(flag))
        dist.all_reduce(flags, dist.ReduceOp.MAX)
        return bool(flags)

    def connect(self, device: torch.device) -> None:
        """Opens a connection for tensors on `device`."""
        if self.size > 1 and device.type == "cuda":
            torch.cuda.set_device(device)
            self._nccl = dist.new_group(backend="nccl")

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replaces float tensors with their means over the ranks, identical on every rank."""
        if self.size == 1 or not tensors:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        dist.all_reduce(flat, group=self._group(flat))
        means = (flat / self.size).split([tensor.numel() for tensor in tensors])
        torch._foreach_copy_(
            list(tensors), [m.view_as(t) for m, t in zip(means, tensors, strict=True)]
        )

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Replaces tensors with rank 0's."""
        for tensor in tensors:
            sent = tensor.contiguous()
            dist.broadcast(sent, 0, group=self._group(sent))
            tensor.copy_(sent)

    def network(self, trained: Iterable[nn.Parameter], logits: Logits) -> Logits:
        """Wraps `logits` so that gradients are averaged over the ranks as they are computed.

        DistributedDataParallel waits for a gradient of every parameter it is given. The updates of
        a step train different parts of the model, so each has its own wrapper; the alternative,
        searching for unused parameters, would wait for the GPU in every step. One forward pass of
        the wrapper covers a whole update, within which the model may embed as often as it likes.

        Args:
            trained: Parameters that the update trains; all must take part in `logits`.
            logits: The forward pass.
        """
        if self.size == 1:
            return logits
        return DistributedDataParallel(_Forward(trained, logits), process_group=self._nccl)

    def _group(self, tensor: Tensor) -> dist.ProcessGroup | None:
        return self._nccl if tensor.is_cuda else None


#: The only process of a run without torchrun.
ALONE = Ranks()


class _Forward(nn.Module):
    """A forward pass that exposes only its trained parameters to DistributedDataParallel.

    Buffers stay hidden: DistributedDataParallel would replace every rank's running statistics with
    rank 0's.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], logits: Logits) -> None:
        super().__init__()
        self.trained = nn.ParameterList(parameters)
        self._logits = [logits]  # in a list, so that a Module is not registered as a child

    def forward(self, *inputs: Any) -> Tensor:
        return self._logits[0](*inputs)


def without_averaging(network: Logits) -> AbstractContextManager[None]:
    """Keeps gradients computed in the block on this rank, until the next block without it."""
    if isinstance(network, DistributedDataParallel):
        return network.no_sync()
    return nullcontext()


@contextmanager
def torchrun_ranks(remedy: str) -> Iterator[Ranks]:
    """Joins the processes that torchrun started; without torchrun, a single process.

    Args:
        remedy: What to do when one of them has died.
    """
    here = place()
    if here.size == 1:
        yield Ranks(here, next(rendezvous("env://"))[0] if here.launched else None)
        return
    previous = on_terminate(_end)
    try:
        store, *_ = next(rendezvous("env://"))
        number = attempt_number(store, here.rank, here.size)
        own = dist.PrefixStore(f"attempt-{number}", store)  # type: ignore[attr-defined]
        dist.init_process_group(
            "gloo", store=own, rank=here.rank, world_size=here.size, timeout=_PATIENCE
        )
        yield Ranks(here, store)
    except BaseException as error:
        if not _broken_off(error):
            _leave()
            on_terminate(previous)
            raise
        # torchrun is terminating the survivors: let this one report first. Do not leave the group
        # cleanly, as that could wait for dead processes.
        on_terminate(signal.SIG_IGN)
        raise LostProcess(
            f"rank {here.rank} lost another process of this run, which may have said why, "
            f"or was told to stop: {remedy}"
        ) from None
    _leave()
    on_terminate(previous)


class _Ended(BaseException):
    """torchrun is terminating this process, as it does when another one has died."""


def _end(number: int, frame: FrameType | None) -> None:
    # By default Python would die silently, even while an error about a lost process is on its way
    # to the user.
    on_terminate(signal.SIG_IGN)
    raise _Ended


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _broken_off(error: BaseException) -> bool:
    """Whether an error comes from a lost connection to another process."""
    words = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer")
    return isinstance(error, _Ended | dist.DistError) or (
        isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    )
