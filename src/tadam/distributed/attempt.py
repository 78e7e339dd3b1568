"""One attempt of a run under torchrun, told apart from those that died before it.

torchrun keeps one store for all attempts, and the addresses of dead processes stay in it. A process
that came back sooner than its peers would call the dead, so each attempt gets a part of the store
of its own. Its number cannot come from torchrun: the restart counts of two machines may differ.
"""

import time
import uuid

import torch.distributed as dist


def attempt_number(store: dist.Store, rank: int, size: int) -> int:  # type: ignore[name-defined]
    """Agrees with the other ranks on the number of this attempt, 1 for the first.

    Rank 0 counts. The others ask under names never used before, so that no answer to an earlier
    process can be taken for theirs, and rank 0 answers until it knows that all have heard.
    """
    if rank > 0:
        name = uuid.uuid4().hex
        store.set(f"asking/{rank}", name)
        number = int(store.get(f"answer/{name}"))  # waits
        store.set(f"heard/{number}/{rank}", "")
        return number
    number = int(store.add("attempts", 1))
    missing = set(range(1, size))
    deadline = time.monotonic() + store.timeout.total_seconds()
    while missing:
        for other in sorted(missing):
            if store.check([f"heard/{number}/{other}"]):
                missing.remove(other)
            elif store.check([f"asking/{other}"]):
                name = store.get(f"asking/{other}").decode()
                store.set(f"answer/{name}", str(number))
        if time.monotonic() > deadline:
            raise dist.DistStoreError(f"ranks {missing} did not come")
        time.sleep(0.005)
    return number
