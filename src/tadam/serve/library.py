"""All projects of a server: found in a folder, opened when needed, moved to a trash folder."""

import hashlib
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import platformdirs

from tadam.classify.embedded import Embedder
from tadam.errors import RunFailed, UserError
from tadam.models.find import default_model, shipped_models
from tadam.serve.live import LiveProject
from tadam.serve.naming import clean_name, slug
from tadam.serve.prediction_queue import PredictionQueue
from tadam.serve.problem import Refused
from tadam.serve.project import CLASSIFIER, DATABASE, Project
from tadam.system.files import make_folder, not_written, replacing
from tadam.system.folder_lock import locked

_ENDING = ".tadam"
_TRASH, _LOCK = "trash", ".tadam-serve.lock"
_ONE_PROJECT = "this server has one project: start one on a folder of projects"


def projects_folder() -> Path:
    """Where a user's projects are unless a folder is named."""
    return Path(platformdirs.user_data_dir("tadam", appauthor=False)) / "projects"


class Library:
    """The projects of a server.

    Args:
        folder: A folder of projects, or a project.
        queue: What embeds photos.
        notify: Called with a project's id, `state` or `progress`.
        local: Whether only this machine asks, which may name models by their files.
    """

    def __init__(
        self,
        folder: Path,
        queue: PredictionQueue,
        notify: Callable[[str, str], None],
        local: bool = True,
    ) -> None:
        self.folder, self.queue, self._notify, self.local = folder, queue, notify, local
        self.worker = ThreadPoolExecutor(1, "learning")
        self.background = ThreadPoolExecutor(2, "background")
        self.looking = ThreadPoolExecutor(os.cpu_count() or 1, "looking")
        self._lock, self._loading = threading.RLock(), threading.Lock()
        self._open: dict[str, LiveProject] = {}
        self._embedders: dict[str, Embedder] = {}
        self._held = ExitStack()
        self.single = (folder / DATABASE).is_file()
        if self.single:
            self._admit(folder.name, Project(folder))
        else:
            self._held.enter_context(locked(folder / _LOCK, folder, keep=True))

    def embedder(self, model: str) -> Embedder:
        """The embedder of a model, loaded once."""
        if not self.local and model not in shipped_models():
            raise UserError(f"there is no model {model!r} here: see the list of models")
        with self._loading:  # takes seconds; `_lock` would keep everybody out of every project
            if model not in self._embedders:
                self._embedders[model] = Embedder(model, self.queue.pool)
            return self._embedders[model]

    def _admit(self, number: str, project: Project) -> LiveProject:
        live = LiveProject(
            number,
            project,
            self.embedder,
            self.queue,
            self.worker,
            self.background,
            lambda what: self._notify(number, what),
        )
        self._open[number] = live
        return live

    def ids(self) -> list[str]:
        """Of all projects, those that are open first."""
        with self._lock:
            found = dict.fromkeys(self._open)
            if not self.single:
                for entry in sorted(os.scandir(self.folder), key=lambda e: e.name):
                    if entry.is_dir() and (Path(entry.path) / DATABASE).is_file():
                        found[entry.name] = None
            return list(found)

    def get(self, number: str) -> LiveProject:
        """A project by its id, opened if it is not."""
        with self._lock:
            if number in self._open:
                return self._open[number]
            if number not in self.ids():
                raise Refused(404, f"there is no project {number!r}: see the list of projects")
            try:
                return self._admit(number, Project(self.folder / number))
            except RunFailed as error:
                raise Refused(409, str(error)) from None

    def create(self, name: str, model: str | None) -> LiveProject:
        """Makes an empty project."""
        if self.single:
            raise Refused(409, _ONE_PROJECT)
        name = clean_name(name)
        model = model or default_model()
        self.embedder(model)  # a mistake in its name shows before anything is made
        with self._lock:
            number = self._free(name)
            return self._admit(number, Project(self.folder / number, (name, model)))

    def create_predicting(self, name: str, model: str, file: Path) -> LiveProject:
        """Makes a project of a `.tadam` file, which it copies; it only predicts."""
        if self.single:
            raise Refused(409, _ONE_PROJECT)
        with self._lock:
            number = self._free(clean_name(name))
            folder = self.folder / number
            with replacing(folder / CLASSIFIER) as temporary:
                shutil.copyfile(file, temporary)
            return self._admit(number, Project(folder, (name, model)))

    def _free(self, name: str) -> str:
        """An id that no project has."""
        number = slug(name)
        while number in (_TRASH, "import", "open") or (self.folder / number).exists():
            number = f"{slug(name)}-{secrets.token_hex(3)}"
        return number

    def open_folder(self, folder: Path) -> LiveProject:
        """Opens a project that is elsewhere."""
        folder = folder.resolve()
        with self._lock:
            for live in self._open.values():
                if live.project.folder.resolve() == folder:
                    return live
            if folder.parent == self.folder.resolve() and (folder / DATABASE).is_file():
                return self.get(folder.name)
            digest = hashlib.sha256(str(folder).encode("utf-8", "surrogateescape")).hexdigest()
            try:
                return self._admit(f"{slug(folder.name)}-{digest[:8]}", Project(folder))
            except RunFailed as error:
                raise Refused(409, str(error)) from None

    def remove(self, number: str) -> None:
        """Moves a project to the trash folder beside it."""
        live = self.get(number)
        if self.single or live.project.folder.parent != self.folder:
            raise Refused(409, "this project is not in the projects folder: delete it yourself")
        with self._lock:
            del self._open[number]
            live.close()
            make_folder(self.folder / _TRASH)
            stamp = f"{number}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
            os.replace(live.project.folder, self.folder / _TRASH / stamp)

    def close(self) -> None:
        """Finishes fits that are under way and closes all projects."""
        for live in self._open.values():
            live.catching_up.stop()
        for pool in (self.background, self.worker, self.looking):
            pool.shutdown(cancel_futures=True)
        for live in self._open.values():
            live.close()
        self._held.close()


def checked_folder(path: Path | None) -> tuple[Path, Path | None]:
    """The folder to serve, and a folder of classes to copy into a new project there.

    Args:
        path: A project, a folder of projects, a folder of classes, or None for the user's own.
    """
    folder = path or projects_folder()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is not a folder: give one of projects, or a .tadam file")
    if not folder.exists() and folder.suffix == _ENDING:
        raise UserError(f"there is no file {folder}: check its name")
    if not folder.exists():
        try:
            make_folder(folder)
        except OSError as error:
            raise not_written(folder, error) from None
    if path is None or (folder / DATABASE).is_file() or _holds_projects(folder):
        return folder, None
    make_folder(projects_folder())
    return projects_folder(), folder


def _holds_projects(folder: Path) -> bool:
    """Whether a folder is empty, or was one of projects before."""
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    return (
        not entries
        or (folder / _LOCK).exists()
        or any((entry / DATABASE).is_file() for entry in entries)
    )
