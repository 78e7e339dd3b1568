"""Numbers the attempts at a run under torchrun, to keep them apart.

torchrun keeps one store for all attempts, with the addresses of dead processes still in it. A
process that restarts before its peers would try to reach the dead ones, so each attempt gets its
own part of the store. torchrun cannot supply the number: restart counts may differ by machine.
"""

import time
import uuid

import torch.distributed as dist


def attempt_number(store: dist.Store, rank: int, size: int) -> int:  # type: ignore[name-defined]
    """Agrees with the other ranks on the number of this attempt, starting at 1.

    Rank 0 counts. The others ask under a fresh unique name, so that no rank mistakes an answer to
    an earlier process for its own; rank 0 keeps answering until all have confirmed.
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
            raise dist.DistStoreError(f"ranks {missing} did not join")
        time.sleep(0.005)
    return number
