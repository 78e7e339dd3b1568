"""Photos that a project's model has not seen yet, embedded in the background.

Those are all photos when the model changes, and some when rows of the database were damaged. A
change that has begun is noted in the database: the next server goes on with it.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, wait

from tadam.classify.embedded import Embedded, Embedder, Eyes
from tadam.classify.reading import ImageSource
from tadam.errors import UserError
from tadam.serve.arrivals import AT_ONCE, stored_embeddings
from tadam.serve.prediction_queue import PredictionQueue
from tadam.serve.problem import Refused, status_of
from tadam.serve.project import Project

#: The fact that names the model a project changes to.
NEXT = "next_model"
#: Seconds between two attempts to get photos into a full queue.
_PAUSE = 0.1


def embedded_patiently(
    queue: PredictionQueue, eyes: Eyes, images: Sequence[ImageSource]
) -> Embedded:
    """What a network makes of photos; waits while the queue is full."""
    while True:
        try:
            return queue.submit(eyes, images).result()
        except Refused as refusal:
            if refusal.status != 429:
                raise
            time.sleep(_PAUSE)


class CatchingUp:
    """Embeds what is missing, for the project's model or the one that it changes to.

    Args:
        project: An open one.
        embedder: Gives the embedder of a model.
        queue: What embeds photos.
        background: Where it runs.
        progress: Called with (photos embedded, total), at the end with twice the same.

    Attributes:
        problems: What could not be done: a name and a sentence each.
        unreadable: Photos that cannot be embedded.
    """

    def __init__(
        self,
        project: Project,
        embedder: Callable[[str], Embedder],
        queue: PredictionQueue,
        background: Executor,
        progress: Callable[[int, int], None],
    ) -> None:
        self._project, self._embedder, self._queue = project, embedder, queue
        self._background, self._progress = background, progress
        self.problems: list[tuple[str, str]] = []
        self.unreadable: set[int] = set()
        self._lock = threading.Lock()
        self._wanted = self._running = self._stopped = False
        self._job: Future[None] | None = None
        if project.database.get(NEXT):
            self.start()

    def start(self) -> None:
        """Looks for photos to embed, soon."""
        with self._lock:
            self._wanted = True
            if not self._running and not self._stopped:
                self._running = True
                self._job = self._background.submit(self._run)

    def change_to(self, model: str) -> None:
        """Has all photos embedded with another model, which the project uses from then on."""
        self._embedder(model)  # a mistake in its name shows at once
        with self._lock:
            if self._running:
                raise Refused(409, "something else is under way: wait for it to finish")
            with self._project.database.transaction():
                self._project.database.put(NEXT, model)
            self.problems = []
        self._progress(0, max(1, len(self._project.live_photos())))
        self.start()

    def stop(self) -> None:
        """Ends after the photos that are under way; the next server does the rest."""
        with self._lock:
            self._stopped = True
        if self._job is not None and not self._job.cancel():
            wait([self._job])

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._wanted or self._stopped:
                    self._running = False
                    return
                self._wanted = False
            try:
                self._catch_up()
            except Exception as error:
                self._give_up(error)
            finally:
                self._progress(1, 1)

    def _catch_up(self) -> None:
        project, done = self._project, 0
        chosen = project.database.get(NEXT)
        model, changes = chosen or project.model, chosen is not None
        embedder = self._embedder(model)
        while not self._stopped:
            with project.database.lock:
                missing = self._missing(model)
                if not missing and changes:
                    self._finish(model)
            if not missing:
                break
            part = missing[:AT_ONCE]
            paths = [project.files.path(project.photos[i].digest) for i in part]
            found = embedded_patiently(self._queue, embedder.eyes, paths)
            for row, sentence in found.problems.items():
                self._note(part[row], sentence.replace(str(paths[row]), "the photo"), changes)
            with project.database.transaction() as connection:
                connection.executemany(
                    "INSERT OR REPLACE INTO embedding VALUES (?, ?, ?)",
                    [
                        (part[i], model, z.tobytes())
                        for i, z in zip(found.rows, found.z, strict=True)
                    ],
                )
            done += len(part)
            self._progress(done, done + len(missing) - len(part))
        if done or changes:
            project.changed()

    def _missing(self, model: str) -> list[int]:
        """Photos to embed, deleted ones too: they may come back."""
        ids, _ = stored_embeddings(self._project, model)
        return sorted(self._project.photos.keys() - set(ids) - self.unreadable)

    def _note(self, number: int, sentence: str, changes: bool) -> None:
        name = self._project.photos[number].name
        if changes:
            raise UserError(f"{name}: {sentence}")
        self.unreadable.add(number)
        self.problems.append((name, sentence))

    def _finish(self, model: str) -> None:
        with self._project.database.transaction() as connection:
            self._project.database.put("model", model)
            connection.execute("DELETE FROM meta WHERE key=?", (NEXT,))
            connection.execute("DELETE FROM embedding WHERE model<>?", (model,))
            self._project.touch()

    def _give_up(self, error: Exception) -> None:
        """Keeps the model that there was, and says why."""
        if self._stopped or (isinstance(error, Refused) and error.status == 503):
            return  # the server is shutting down
        database = self._project.database
        model = database.get(NEXT)
        name = f"the change to {model}" if model else "embedding"
        self.problems.append((name, status_of(error)[1]))
        try:
            with database.transaction() as connection:
                connection.execute("DELETE FROM meta WHERE key=?", (NEXT,))
                connection.execute("DELETE FROM embedding WHERE model<>?", (self._project.model,))
        except Exception:  # a full disk say; the next server tries again
            return
        finally:
            self._project.changed()
