"""What a running server of projects has at hand, and how requests get at it."""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from fastapi import Path as InPath
from starlette.concurrency import run_in_threadpool

from tadam.serve.arrivals import AddedPhotos, Incoming, add_photos
from tadam.serve.events import EventHub
from tadam.serve.library import Library
from tadam.serve.live import Busy, LiveProject
from tadam.serve.prediction_queue import PredictionQueue
from tadam.serve.problem import Refused, status_of
from tadam.serve.serve_settings import ServeSettings
from tadam.serve.server_metrics import ServerMetrics
from tadam.serve.uploads import unpacked_zips

T = TypeVar("T")


class Studio:
    """Queue, projects, events and counters of a server.

    Args:
        settings: What the server was told.
        folder: A folder of projects, or a project.
    """

    def __init__(self, settings: ServeSettings, folder: Path) -> None:
        self.settings, self.hub, self.metrics = settings, EventHub(), ServerMetrics()
        self.queue = PredictionQueue(settings.queue, settings.gather)
        self.library = Library(folder, self.queue, self.hub.notify, settings.is_local)

    def close(self) -> None:
        """Finishes what was accepted."""
        self.hub.close()
        self.library.close()
        self.queue.close()

    def add(
        self,
        live: LiveProject,
        sent: list[Incoming],
        class_id: int | None = None,
        by_folder: bool = False,
        group: str = "",
    ) -> AddedPhotos:
        """Adds photos to a project and shows how far it is."""
        writable(live)
        zipped: list[tuple[str, str]] = []
        total = len(sent)

        def more(members: int) -> None:
            nonlocal total
            total += members - 1

        def progress(done: int) -> None:
            live.show(Busy("adding", done, total) if done < total else None)

        with ExitStack() as stack:
            files = unpacked_zips(sent, zipped, stack, more)
            try:
                result = add_photos(
                    live.project,
                    files,
                    live.embed,
                    self.library.looking,
                    class_id,
                    by_folder,
                    progress,
                    group,
                )
            finally:
                live.show(None)
        result.problems += zipped
        return result

    def add_later(self, live: LiveProject, files: list[Incoming]) -> None:
        """Adds photos in the background; the project's state tells what was wrong with them."""

        def add() -> None:
            try:
                live.note(self.add(live, files, by_folder=True).problems)
            except Exception as error:
                live.note([(live.project.name, status_of(error)[1])])

        self.library.background.submit(add)


def writable(live: LiveProject) -> LiveProject:
    """The project, unless it only predicts."""
    if live.is_read_only:
        raise Refused(409, "this project only predicts: make a new one to add photos")
    return live


def studio_of(request: Request) -> Studio:
    """The studio of the app that a request is for."""
    found: Studio = request.app.state.studio
    return found


AStudio = Annotated[Studio, Depends(studio_of)]
ProjectId = Annotated[str, InPath(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$", examples=["flowers"])]


def project_of(p: ProjectId, studio: AStudio) -> LiveProject:
    """The project that a path names."""
    live = studio.library.get(p)
    live.wake()
    return live


AProject = Annotated[LiveProject, Depends(project_of)]


async def _learnt(live: AProject) -> LiveProject:
    with suppress(Exception):  # whoever asks is told
        await live.current_soon()
    return live


#: A project that has learnt its last change: its routes wait for that without a thread.
ALearntProject = Annotated[LiveProject, Depends(_learnt)]


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Runs what waits for the disk or for a lock beside the event loop."""
    return await run_in_threadpool(work, *arguments)
