"""Server-sent events: whoever watches a project hears of changes at once."""

import asyncio
import json
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable

#: Seconds between two signs of life, so that a connection that is gone shows.
_HEARTBEAT = 15.0


class EventHub:
    """Passes events from any thread on to the connections that wait for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watchers: dict[str, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = (
            defaultdict(set)
        )
        self._closed = False

    def notify(self, project: str, _: str = "state") -> None:
        """Wakes those who watch a project."""
        with self._lock:
            watchers = list(self._watchers.get(project, ()))
        for loop, event in watchers:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    def close(self) -> None:
        """Ends all connections: the server is shutting down."""
        self._closed = True
        for project in list(self._watchers):
            self.notify(project)

    async def watch(
        self, project: str, look: Callable[[], tuple[int, dict[str, object] | None]]
    ) -> AsyncIterator[str]:
        """The events of a project as text, until the client goes or the server stops.

        Args:
            project: Its id.
            look: Gives its revision and what is under way.
        """
        watcher = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._watchers[project].add(watcher)
        revision, busy, event = -1, None, watcher[1]
        try:
            while not self._closed:
                event.clear()
                now, doing = look()
                if doing != busy:
                    busy = doing
                    shown = doing or {"what": "", "done": 1, "total": 1}
                    yield f"event: progress\ndata: {json.dumps(shown)}\n\n"
                if now != revision:
                    revision = now
                    yield f"event: state\ndata: {json.dumps({'revision': now})}\n\n"
                try:
                    await asyncio.wait_for(event.wait(), _HEARTBEAT)
                except TimeoutError:
                    yield ": alive\n\n"
        finally:
            with self._lock:
                self._watchers[project].discard(watcher)
