"""A classifier on Ray Serve: replicas on a cluster embed photos, this process speaks HTTP.

A question changes nothing, so one whose replica dies is simply asked again: whoever was accepted
gets an answer.
"""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tadam.classify.embedded import Embedded, Eyes
from tadam.classify.reading import ImageSource
from tadam.data.encoded import Encoded
from tadam.distributed.jobs import Cluster, Watcher
from tadam.distributed.ray_pool import connected
from tadam.errors import RunFailed, UserError
from tadam.serve.prediction_queue import PredictionQueue, refuse_if_full
from tadam.serve.serve_settings import ServeSettings

#: Times that a question is asked again, and seconds in between.
_RETRIES, _PAUSE = 20, 0.5
#: Questions that are with the replicas at a time.
_UNDER_WAY = 128
#: A replica's name among those of a cluster, and its resources.
_NAME = "tadam"


class Replica:
    """What runs in each replica: a classifier's network behind a queue of its own."""

    def __init__(self, content: bytes, queue: int, gather: float, threads: int) -> None:
        import tempfile

        import torch

        from tadam.classify.classifier import FewShotClassifier

        torch.set_num_threads(threads)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "classifier.tadam"
            path.write_bytes(content)
            classifier = FewShotClassifier.load(path, device="cpu")
        self._queue = PredictionQueue(queue, gather, threads)
        self._eyes = Eyes(classifier.predictor_, self._queue.pool)

    async def embed(self, photos: list[tuple[str, bytes]]) -> tuple[list[int], Any, dict[int, str]]:
        """Rows, embeddings and problems of photos."""
        import asyncio

        images = [Encoded(name, lambda data=data: data) for name, data in photos]  # type: ignore[misc]
        found = await asyncio.wrap_future(self._queue.submit(self._eyes, images))
        return found.rows, found.z, found.problems


class RayQueue:
    """Has photos embedded by the replicas of a deployment.

    Attributes:
        pool: None: nothing is embedded here.
        batches: Questions that were passed on.
        photos: Photos in them.
        retries: Questions that had to be asked again.
    """

    def __init__(self, handle: Any, most: int) -> None:
        self._handle, self._most = handle, most
        self.pool: ThreadPoolExecutor | None = None
        self.batches = self.photos = self.retries = 0
        self._waiting = 0
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(_UNDER_WAY, "ray")

    @property
    def length(self) -> int:
        """Photos that wait."""
        return self._waiting

    def submit(self, eyes: Eyes, images: Sequence[ImageSource]) -> "Future[Embedded]":
        """Passes a request's photos on; refuses if there is no room for them."""
        photos = [(image.name, image.read()) for image in images if isinstance(image, Encoded)]
        with self._lock:
            refuse_if_full(self._waiting, len(photos), self._most)
            self._waiting += len(photos)
        return self._threads.submit(self._ask, photos)

    def _ask(self, photos: list[tuple[str, bytes]]) -> Embedded:
        from ray.exceptions import RayError, RayTaskError

        try:
            for attempt in range(_RETRIES):
                try:
                    rows, z, problems = self._handle.embed.remote(photos).result()
                    self.batches, self.photos = self.batches + 1, self.photos + len(photos)
                    return Embedded(rows, np.array(z), problems)
                except RayTaskError as error:
                    raise RunFailed(f"a replica failed: {error.cause}") from None
                except RayError:  # the replica died, or its machine
                    self.retries += 1
                    time.sleep(_PAUSE if attempt else 0)
            raise RunFailed("no replica answers: check the cluster")
        finally:
            with self._lock:
                self._waiting -= len(photos)

    def close(self) -> None:
        """Waits for all answers."""
        self._threads.shutdown()


@contextmanager
def deployed(
    path: Path, settings: ServeSettings, cluster: Cluster, replicas: int
) -> Iterator[RayQueue]:
    """A Ray Serve deployment of a classifier while the block runs.

    Args:
        path: A `.tadam` file; its content goes to the replicas.
        settings: What the server was told.
        cluster: Where, and the CPUs of a replica.
        replicas: How many.
    """
    with ExitStack() as stack:
        stack.enter_context(connected(cluster, Watcher()))
        try:
            from ray import serve
        except ImportError as error:
            raise UserError(
                f"Ray Serve is not installed ({error.name}): pip install 'ray[serve]'"
            ) from None
        logging.getLogger("ray.serve").setLevel(logging.ERROR)
        serve.start(proxy_location="Disabled")
        stack.callback(serve.shutdown)
        deployment: Any = serve.deployment(Replica)
        deployment = deployment.options(
            num_replicas=replicas,
            max_ongoing_requests=_UNDER_WAY,
            ray_actor_options={"num_cpus": cluster.cpus, "num_gpus": cluster.gpus},
        )
        bound = deployment.bind(path.read_bytes(), settings.queue, settings.gather, cluster.cpus)
        handle = serve.run(bound, name=_NAME, route_prefix=None)
        yield RayQueue(handle, settings.queue)
