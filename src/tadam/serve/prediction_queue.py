"""Photos that wait to be embedded: gathered from all requests for a few milliseconds, in batches.

The queue is bounded; whoever comes when it is full is turned away at once. Two batches are under
way at a time, so that no core waits for the last photo of one. Whoever comes when there are none
waits for nobody.
"""

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import torch

from tadam.classify.embedded import Embedded, Eyes
from tadam.classify.reading import ImageSource, reading_threads
from tadam.serve.problem import Refused

#: Photos in a batch, at most, unless a single request has more.
BATCH = 16
_LANES = 2


@dataclass(frozen=True)
class Waiting:
    """Photos of one request."""

    eyes: Eyes
    images: Sequence[ImageSource]
    future: "Future[Embedded]"


@dataclass(frozen=True, eq=False)
class BatchShare(Embedded):
    """What one request gets of a batch.

    Attributes:
        batch: The whole of it.
        places: Where this request's embeddings are in it.
    """

    batch: Embedded
    places: list[int]


class PhotoQueue(Protocol):
    """What embeds photos for many requests, here or elsewhere.

    Attributes:
        pool: Threads that embed, if it is here.
        batches: How many batches there were.
        photos: How many photos were in them.
    """

    pool: ThreadPoolExecutor | None
    batches: int
    photos: int

    @property
    def length(self) -> int: ...

    def submit(self, eyes: Eyes, images: Sequence[ImageSource]) -> "Future[Embedded]": ...

    def close(self) -> None: ...


class PredictionQueue:
    """Embeds photos for many requests.

    Args:
        most: Photos that may wait.
        gather: Seconds to wait for more before a batch starts while another is under way.
        threads: Threads that read and embed; None for one on every core that PyTorch may use.

    Attributes:
        pool: Those threads.
        batches: How many batches there were.
        photos: How many photos were in them.
    """

    def __init__(self, most: int, gather: float, threads: int | None = None) -> None:
        self.pool: ThreadPoolExecutor | None = reading_threads(threads or torch.get_num_threads())
        self.most, self._gather = most, gather
        self.batches = self.photos = 0
        self._waiting: deque[Waiting] = deque()
        self._change = threading.Condition()
        self._closed, self._busy = False, 0
        self._lanes = [threading.Thread(target=self._work, daemon=True) for _ in range(_LANES)]
        for lane in self._lanes:
            lane.start()

    @property
    def length(self) -> int:
        """Photos that wait."""
        with self._change:
            return sum(len(w.images) for w in self._waiting)

    def submit(self, eyes: Eyes, images: Sequence[ImageSource]) -> "Future[Embedded]":
        """Adds a request's photos; refuses if there is no room for them."""
        future: Future[Embedded] = Future()
        with self._change:
            waiting = sum(len(w.images) for w in self._waiting)
            if self._closed:
                raise Refused(503, "the server is shutting down: ask again in a while")
            refuse_if_full(waiting, len(images), self.most)
            self._waiting.append(Waiting(eyes, images, future))
            self._change.notify()
        return future

    def close(self) -> None:
        """Finishes what was accepted, then stops."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        for lane in self._lanes:
            lane.join()
        if self.pool:
            self.pool.shutdown()

    def _work(self) -> None:
        done = 0
        while batch := self._next(done):
            done = 1
            images = [image for waiting in batch for image in waiting.images]
            self.batches, self.photos = self.batches + 1, self.photos + len(images)
            try:
                found = batch[0].eyes.embed(images)
            except BaseException as error:
                for waiting in batch:
                    waiting.future.set_exception(error)
                continue
            start = 0
            for waiting in batch:
                waiting.future.set_result(_share(found, start, len(waiting.images)))
                start += len(waiting.images)

    def _next(self, done: int = 0) -> list[Waiting]:
        """The next batch: requests for one network, in order; nothing once all is done.

        Args:
            done: How many batches this lane has just finished.
        """
        with self._change:
            self._busy -= done
            self._change.wait_for(lambda: self._waiting or self._closed)
            end = time.monotonic() + self._gather
            while self._busy and self._waiting and self._ready() < BATCH and not self._closed:
                left = end - time.monotonic()
                if left <= 0 or not self._change.wait(left):
                    break
            batch: list[Waiting] = []
            while self._waiting and self._waiting[0].eyes is (batch or self._waiting)[0].eyes:
                count = sum(len(w.images) for w in batch) + len(self._waiting[0].images)
                if batch and count > BATCH:
                    break
                batch.append(self._waiting.popleft())
            self._busy += bool(batch)
        return batch if batch or self._closed else self._next()

    def _ready(self) -> int:
        return sum(len(w.images) for w in self._waiting)


def refuse_if_full(waiting: int, new: int, most: int) -> None:
    """Turns photos away, with the seconds after which to try again, if too many wait."""
    if waiting and waiting + new > most:
        seconds = str(max(1, round(waiting / 50)))
        raise Refused(
            429,
            f"{waiting} photos are waiting already: ask again in {seconds} s",
            {"Retry-After": seconds},
        )


def _share(found: Embedded, start: int, count: int) -> BatchShare:
    """The rows of a batch from `start` on."""
    places = [i for i, row in enumerate(found.rows) if start <= row < start + count]
    problems = {r - start: s for r, s in found.problems.items() if start <= r < start + count}
    rows = [found.rows[i] - start for i in places]
    return BatchShare(rows, found.z[places], problems, found, places)
