"""A project that learns: whenever its labels change, the metric is fitted anew in the background.

Requests never wait for the fit unless they ask for an answer; then they wait for the newest one.
"""

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
from tadam.errors import RunFailed, UserError
from tadam.serve.arrivals import AT_ONCE, stored_embeddings
from tadam.serve.prediction_queue import PredictionQueue
from tadam.serve.problem import Refused
from tadam.serve.project import Project
from tadam.serve.taught import Taught, from_file, taught

#: Seconds that a question waits for a fit.
_PATIENCE = 120.0
#: Seconds between two attempts to get photos into a full queue.
_PAUSE = 0.1


class Busy(NamedTuple):
    """What is under way, and how far it is."""

    what: str
    done: int
    total: int


class LiveProject:
    """A project with its classifier.

    Args:
        id: What the API calls it.
        project: An open one.
        embedder: Gives the embedder of a model.
        queue: What embeds photos.
        worker: Where fits run, one after another.
        notify: Called with `state` or `progress` when there is something to show.
    """

    def __init__(
        self,
        id: str,
        project: Project,
        embedder: Callable[[str], Embedder],
        queue: PredictionQueue,
        worker: ThreadPoolExecutor,
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
        self._queued = self._closed = False
        self._fitting = threading.Lock()
        self._known: tuple[str, dict[int, npt.NDArray[np.float32]]] = ("", {})
        self._kept: dict[str, tuple[object, list[Any]]] = {}
        self._keeping = threading.Lock()
        project.on_change = self.refresh
        self.refresh()

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
            self._queued = True
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

    def current(self) -> Taught:
        """What is known once the last change has been learnt."""
        with self._change:
            edits = self.project.edits
            ready = self._change.wait_for(lambda: self._fitted >= edits, _PATIENCE)
        if not ready:
            raise Refused(503, "the classifier is still learning: ask again in a while")
        if self.failure is not None:
            raise self.failure
        return self.taught

    def teachable(self) -> Taught:
        """The same, if there is a classifier; otherwise a sentence."""
        found = self.current()
        if found.classifier is None:
            raise Refused(
                409, "there is no classifier yet: put photos into at least two classes first"
            )
        return found

    def close(self) -> None:
        """Waits for a fit that is under way, then closes the project."""
        self.project.on_change = lambda: None
        with self._fitting:
            self._closed = True
            self.project.close()

    def embed(self, images: Sequence[ImageSource]) -> Embedded:
        """What the project's model makes of new photos; waits while the queue is full."""
        eyes = self._embedder(self.project.model).eyes
        while True:
            try:
                return self.queue.submit(eyes, images).result()
            except Refused as refusal:
                if refusal.status != 429:
                    raise
                time.sleep(_PAUSE)

    def _fitted_now(self) -> Taught:
        if file := self.project.classifier_file:
            return from_file(FewShotClassifier.load(file, device="cpu"), self.queue.pool)
        with self.project.database.lock:
            photos = self.project.live_photos()
            names = {box.id: box.name for box in self.project.live_boxes()}
        labelled = [p for p in photos if p.class_id in names]
        others = [p for p in photos if p.class_id not in names]
        if len({p.class_id for p in labelled}) < 2:
            return Taught()
        z = self.embeddings()
        embedder = self._embedder(self.project.model)
        missing = [p.id for p in photos if p.id not in z]
        if missing:
            raise RunFailed(f"{len(missing)} photos are not embedded yet")
        path = self.project.files.path
        made = embedder.classifier(
            np.stack([z[p.id] for p in labelled]),
            [names[p.class_id] for p in labelled if p.class_id is not None],
            lambda: [path(p.digest) for p in labelled],
            self._progress("learning"),
        )
        places = {name: number for number, name in names.items()}
        class_ids = [places[str(name)] for name in made.classes_.tolist()]
        eyes, rest = embedder.eyes, np.zeros((0, 0), np.float32)
        if embedder.conditioned:
            eyes = Eyes(made.predictor_, self.queue.pool)
            if others:
                rest = eyes.embed([path(p.digest) for p in others], self._progress("guessing")).z
        elif others:
            rest = np.stack([z[p.id] for p in others])
        self.busy = None
        return taught(made, class_ids, eyes, [p.id for p in labelled], [p.id for p in others], rest)

    def embeddings(self) -> dict[int, npt.NDArray[np.float32]]:
        """By photo; read from the database once, then only those that are new."""
        model = self.project.model
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

    def change_model(self, model: str, background: Executor) -> None:
        """Embeds all photos with another model, then uses it."""
        embedder = self._embedder(model)  # a mistake in its name shows at once
        if self.busy is not None:
            raise Refused(409, "something else is under way: wait for it to finish")
        self.show(Busy("embedding", 0, max(1, len(self.project.live_photos()))))
        background.submit(self._reembed, model, embedder)

    def _reembed(self, model: str, embedder: Embedder) -> None:
        project = self.project
        try:
            while missing := self._without(model):
                total = len(project.photos)
                part = missing[:AT_ONCE]
                paths = [project.files.path(project.photos[i].digest) for i in part]
                found = self.queue.submit(embedder.eyes, paths).result()
                if found.problems:
                    raise UserError(next(iter(found.problems.values())))
                with project.database.transaction() as connection:
                    connection.executemany(
                        "INSERT OR REPLACE INTO embedding VALUES (?, ?, ?)",
                        [(i, model, z.tobytes()) for i, z in zip(part, found.z, strict=True)],
                    )
                self.show(Busy("embedding", total - len(missing) + len(part), total))
            with project.database.lock:
                if self._without(model):  # arrived meanwhile
                    return self._reembed(model, embedder)
                project.set_fact("model", model)
            with project.database.transaction() as connection:
                connection.execute("DELETE FROM embedding WHERE model<>?", (model,))
        except Exception as error:
            self.failure = error
        finally:
            self.show(None)
            project.changed()

    def _without(self, model: str) -> list[int]:
        ids, _ = stored_embeddings(self.project, model)
        return sorted(set(self.project.photos) - set(ids))
