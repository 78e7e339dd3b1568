"""Many processes as one run: what they agree on, gather and average (`torchrun -m tadam train`).

Every process ("rank") goes through the same steps and takes its own share of each. Rank 0 alone
reads and writes the run folder and speaks.
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
#: How long a rank waits for another, which may be reading a large data set for the first time; one
#: that dies is noticed at once, by its closed connection.
_PATIENCE = timedelta(hours=3)
#: Inputs to logits: a network, or one behind DistributedDataParallel.
Logits = Callable[..., Tensor]


class Ranks:
    """The processes of a run as one of them sees them; without torchrun there is one.

    Words and decisions travel over gloo, which never waits for a GPU; tensors over gloo or NCCL.
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
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    @property
    def begun(self) -> bool:
        """Whether the work had begun before torchrun started these processes anew.

        An attempt that was refused is restarted as well, and must not go on with what it found.
        """
        return self._store is not None and bool(self._store.check(["begun"]))

    def begin(self) -> None:
        """From now on, another attempt goes on where this one ends."""
        if self._store is not None:
            self._store.set("begun", "")

    def share(self, total: int) -> range:
        """This rank's part of the numbers from 0 up to `total`."""
        return range(self.rank * total // self.size, (self.rank + 1) * total // self.size)

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """Makes a mistake that one rank finds in the block an error of all, said once."""
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
        """Lets one process of each machine do something, such as fill a cache, for the others."""
        if self.size > 1:
            with self.agreed():
                if self._local_rank == 0:
                    work()

    def gather(self, value: T) -> list[T]:
        """The value of every rank, on every rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def any(self, flag: bool) -> bool:
        """Whether the flag is up on some rank."""
        if self.size == 1:
            return flag
        flags = torch.tensor(int(flag))
        dist.all_reduce(flags, dist.ReduceOp.MAX)
        return bool(flags)

    def connect(self, device: torch.device) -> None:
        """Opens the way for tensors of that device."""
        if self.size > 1 and device.type == "cuda":
            torch.cuda.set_device(device)
            self._nccl = dist.new_group(backend="nccl")

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replaces float tensors by their means over the ranks, which are the same on all."""
        if self.size == 1 or not tensors:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        dist.all_reduce(flat, group=self._group(flat))
        means = (flat / self.size).split([tensor.numel() for tensor in tensors])
        torch._foreach_copy_(
            list(tensors), [m.view_as(t) for m, t in zip(means, tensors, strict=True)]
        )

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Replaces tensors by those of rank 0."""
        for tensor in tensors:
            sent = tensor.contiguous()
            dist.broadcast(sent, 0, group=self._group(sent))
            tensor.copy_(sent)

    def network(self, trained: Iterable[nn.Parameter], logits: Logits) -> Logits:
        """`logits` with gradients that are averaged over the ranks while they are computed.

        DistributedDataParallel waits for a gradient of every parameter that it is given. The
        updates of a step train different parts of the model, so each has a wrapper of its own; the
        alternative, to search for unused parameters, would wait for the GPU in every step. A
        wrapper's forward pass is a whole update's: the model may embed as often as it likes in it.

        Args:
            trained: What the update trains; all of it must take part in `logits`.
            logits: The forward pass.
        """
        if self.size == 1:
            return logits
        return DistributedDataParallel(_Forward(trained, logits), process_group=self._nccl)

    def _group(self, tensor: Tensor) -> dist.ProcessGroup | None:
        return self._nccl if tensor.is_cuda else None


#: The one process of a run without torchrun.
ALONE = Ranks()


class _Forward(nn.Module):
    """A forward pass that shows DistributedDataParallel what it trains, and nothing else.

    Buffers stay out of sight: DistributedDataParallel would replace every rank's running statistics
    by those of rank 0.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], logits: Logits) -> None:
        super().__init__()
        self.trained = nn.ParameterList(parameters)
        self._logits = [logits]  # in a list, so that a Module is not taken for a part of this one

    def forward(self, *inputs: Any) -> Tensor:
        return self._logits[0](*inputs)


def without_averaging(network: Logits) -> AbstractContextManager[None]:
    """Gradients of the block stay on this rank until a block without this follows."""
    if isinstance(network, DistributedDataParallel):
        return network.no_sync()
    return nullcontext()


@contextmanager
def torchrun_ranks(remedy: str) -> Iterator[Ranks]:
    """Joins the processes that torchrun started; alone without it.

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
        # torchrun is ending the survivors: let this one speak first. And no goodbye to the group,
        # which could wait for the dead.
        on_terminate(signal.SIG_IGN)
        raise LostProcess(
            f"rank {here.rank} lost another process of this run, which may have said why, "
            f"or was told to end: {remedy}"
        ) from None
    _leave()
    on_terminate(previous)


class _Ended(BaseException):
    """torchrun ends this process, as it does when another one of the run has died."""


def _end(number: int, frame: FrameType | None) -> None:
    # Python's own answer would be to die without a word, even while the news of a lost process is
    # on its way to the user.
    on_terminate(signal.SIG_IGN)
    raise _Ended


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _broken_off(error: BaseException) -> bool:
    """Whether an error comes from a connection to another process."""
    words = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer")
    return isinstance(error, _Ended | dist.DistError) or (
        isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    )
