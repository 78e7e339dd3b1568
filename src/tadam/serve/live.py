"""A project that learns: whenever its labels change, the metric is fitted anew in the background.

Requests never wait for the fit unless they ask for an answer; then they wait for the newest one.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tadam.classify.classifier import FewShotClassifier
from tadam.classify.embedded import Embedded, Embedder, Eyes
from tadam.classify.reading import ImageSource
from tadam.serve.arrivals import stored_embeddings
from tadam.serve.catching_up import CatchingUp, embedded_patiently
from tadam.serve.naming import counted
from tadam.serve.prediction_queue import PredictionQueue
from tadam.serve.problem import Refused
from tadam.serve.project import Project
from tadam.serve.taught import Taught, from_file, taught

#: Seconds that a question waits for a fit.
_PATIENCE = 120.0
#: Seconds between two looks at whether a fit has ended.
_LOOK = 0.01
#: Problems that are kept to be shown.
_MOST_NOTED = 100
#: What a fit is busy with.
_FITTING = ("learning", "guessing")


class Busy(NamedTuple):
    """What is under way, and how far it is."""

    what: str
    done: int
    total: int


def _with_classifier(found: Taught) -> Taught:
    if found.classifier is None:
        raise Refused(409, "there is no classifier yet: put photos into at least two classes first")
    return found


class LiveProject:
    """A project with its classifier.

    Args:
        id: What the API calls it.
        project: An open one.
        embedder: Gives the embedder of a model.
        queue: What embeds photos.
        worker: Where fits run, one after another.
        background: Where photos are embedded that a model has not seen.
        notify: Called with `state` or `progress` when there is something to show.
    """

    def __init__(
        self,
        id: str,
        project: Project,
        embedder: Callable[[str], Embedder],
        queue: PredictionQueue,
        worker: ThreadPoolExecutor,
        background: Executor,
        notify: Callable[[str], None],
    ) -> None:
        self.id = id
        self.project, self._embedder, self.queue, self._worker = project, embedder, queue, worker
        self._notify = notify
        self.busy: Busy | None = None
        self.taught = Taught()
        self.failure: Exception | None = None
        self._fitted = -1
        self._change = threading.Condition()
        self._awake = self._queued = self._closed = False
        self._fitting = threading.Lock()
        self._known: tuple[str, dict[int, npt.NDArray[np.float32]]] = ("", {})
        self._kept: dict[str, tuple[object, list[Any]]] = {}
        self._keeping = threading.Lock()
        self._noted: list[tuple[str, str]] = []
        self.catching_up = CatchingUp(
            project, embedder, queue, background, self._progress("embedding")
        )
        project.on_change = self.refresh

    @property
    def is_read_only(self) -> bool:
        """Whether it only predicts."""
        return self.project.classifier_file is not None

    def refresh(self) -> None:
        """Has the classifier fitted anew, soon; several changes make one fit."""
        self._notify("state")
        with self._change:
            if self._queued:
                return
            self._awake = self._queued = True
        self._worker.submit(self._refit)

    def _refit(self) -> None:
        with self._fitting:
            if not self._closed:
                self._learn()

    def _learn(self) -> None:
        with self._change:
            self._queued = False
        edits = self.project.edits
        try:
            made, failure = self._fitted_now(), None
        except Exception as error:  # told to whoever asks next
            made, failure = Taught(), error
        with self._change:
            self.taught, self.failure, self._fitted = made, failure, edits
            self._change.notify_all()
        self.project.revision += 1
        self._note_accuracy(made)
        self._notify("state")

    def wake(self) -> None:
        """Has the classifier fitted if it never was: a project that is only listed needs none."""
        if not self._awake:
            self.refresh()

    def current(self) -> Taught:
        """What is known once the last change has been learnt."""
        self.wake()
        with self._change:
            edits = self.project.edits
            ready = self._change.wait_for(lambda: self._fitted >= edits, _PATIENCE)
        return self._learnt(ready)

    async def current_soon(self) -> Taught:
        """The same, without a thread that waits."""
        self.wake()
        edits, end = self.project.edits, time.monotonic() + _PATIENCE
        while self._fitted < edits and time.monotonic() < end:
            await asyncio.sleep(_LOOK)
        return self._learnt(self._fitted >= edits)

    def _learnt(self, ready: bool) -> Taught:
        with self._change:
            found, failure = self.taught, self.failure
        if not ready:
            raise Refused(503, "the classifier is still learning: ask again in a while")
        if failure is not None:
            raise failure
        return found

    def teachable(self) -> Taught:
        """The same, if there is a classifier; otherwise a sentence."""
        return _with_classifier(self.current())

    async def teachable_soon(self) -> Taught:
        """The same, without a thread that waits."""
        return _with_classifier(await self.current_soon())

    def close(self) -> None:
        """Waits for a fit that is under way, then closes the project."""
        self.catching_up.stop()
        self.project.on_change = lambda: None
        with self._fitting:
            self._closed = True
            self.project.close()

    def embed(self, model: str, images: Sequence[ImageSource]) -> Embedded:
        """What a model makes of new photos; waits while the queue is full."""
        return embedded_patiently(self.queue, self._embedder(model).eyes, images)

    def _fitted_now(self) -> Taught:
        if file := self.project.classifier_file:
            return from_file(FewShotClassifier.load(file, device="cpu"), self.queue.pool)
        skipped = self.catching_up.unreadable
        with self.project.database.lock:
            model = self.project.model
            photos = [p for p in self.project.live_photos() if p.id not in skipped]
            names = {box.id: box.name for box in self.project.live_boxes()}
        labelled = [p for p in photos if p.class_id in names]
        others = [p for p in photos if p.class_id not in names]
        if len({p.class_id for p in labelled}) < 2:
            return Taught()
        z = self.embeddings(model)
        embedder = self._embedder(model)
        missing = [p.id for p in photos if p.id not in z]
        if missing:
            self.catching_up.start()
            count = counted(len(missing))
            raise Refused(503, f"the model has not seen {count} yet: ask again in a while")
        path = self.project.files.path
        made = embedder.classifier(
            np.stack([z[p.id] for p in labelled]),
            [names[p.class_id] for p in labelled if p.class_id is not None],
            lambda: [path(p.digest) for p in labelled],
            self._progress(_FITTING[0]),
        )
        places = {name: number for number, name in names.items()}
        class_ids = [places[str(name)] for name in made.classes_.tolist()]
        eyes, rest = embedder.eyes, np.zeros((0, 0), np.float32)
        if embedder.conditioned:
            eyes = Eyes(made.predictor_, self.queue.pool)
            if others:
                rest = eyes.embed([path(p.digest) for p in others], self._progress(_FITTING[1])).z
        elif others:
            rest = np.stack([z[p.id] for p in others])
        if self.busy and self.busy.what in _FITTING:
            self.busy = None
        return taught(made, class_ids, eyes, [p.id for p in labelled], [p.id for p in others], rest)

    def embeddings(self, model: str | None = None) -> dict[int, npt.NDArray[np.float32]]:
        """By photo; read from the database once, then only those that are new."""
        model = model or self.project.model
        if self._known[0] != model:
            self._known = (model, {})
        known = self._known[1]
        if any(number not in known for number in list(self.project.photos)):
            ids, rows = stored_embeddings(self.project, model)
            known.update(zip(ids, rows, strict=True))
        return known

    def kept(self, what: str, state: object, make: Callable[[], list[Any]]) -> list[Any]:
        """What was made for this state of things, or is now; the last state of each is kept.

        Args:
            what: Its name.
            state: All that it depends on.
            make: Makes it.
        """
        with self._keeping:
            if what not in self._kept or self._kept[what][0] != state:
                self._kept[what] = (state, make())
            return self._kept[what][1]

    def _progress(self, what: str) -> Callable[[int, int], None]:
        def progress(done: int, total: int) -> None:
            self.show(Busy(what, done, total) if done < total else None)

        return progress

    def show(self, busy: Busy | None) -> None:
        """Says what is under way."""
        self.busy = busy
        self._notify("progress")

    def _note_accuracy(self, made: Taught) -> None:
        if made.accuracy is None or self.is_read_only:
            return
        try:
            with self.project.database.transaction() as connection:
                connection.execute(
                    "INSERT OR REPLACE INTO accuracy VALUES (?, ?)",
                    (len(made.support_ids), made.accuracy),
                )
        except Exception:  # a full disk; the next request that writes will say so
            return

    def change_model(self, model: str) -> None:
        """Embeds all photos with another model, then uses it."""
        if self.busy is not None:
            raise Refused(409, "something else is under way: wait for it to finish")
        self.catching_up.change_to(model)

    @property
    def problems(self) -> list[tuple[str, str]]:
        """What went wrong in the background: a name and a sentence each."""
        return self._noted + self.catching_up.problems

    def note(self, problems: list[tuple[str, str]]) -> None:
        """Keeps what went wrong where no request could be told, the last of it."""
        self._noted = (self._noted + problems)[-_MOST_NOTED:]
        self.project.revision += 1
        self._notify("state")
