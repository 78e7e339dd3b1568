"""Starts a server, and stops it without losing what it has accepted."""

import asyncio
import gc
import socket
import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from tadam.errors import UserError
from tadam.serve.serve_settings import ServeSettings

#: Seconds for a client to send the head of a request.
_HEAD = 20.0
#: Connections of a process, if the system lets it have as many.
_MOST_CONNECTIONS = 4096
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n"
    b"Retry-After: 1\r\nConnection: close\r\n\r\n"
    b'{"type": "about:blank", "title": "Service Unavailable", "status": 503, '
    b'"detail": "the server has too many connections: ask again in a while"}'
)
#: Seconds for requests that are under way when the server is told to stop.
_GRACE = 60
#: Seconds after which the thread that speaks HTTP makes room for those that read photos, if they
#: wait. With Python's 5 ms, each step of reading would wait for as long while answers go out.
_SWITCH = 0.0005
#: New objects after which Python looks for cycles among them. A request makes hundreds.
_NEW_OBJECTS = 20_000


class PatientProtocol(H11Protocol):
    """HTTP/1.1 that closes connections which never finish a request's head (slow loris).

    The clock runs while a client owes something and no request is under way, and no byte of its
    makes it start again: uvicorn's own stops at the first byte after an answer.
    """

    def connection_made(self, transport: Any) -> None:
        """Starts the clock; a server that is full sends somebody away."""
        super().connection_made(transport)
        self._clock: asyncio.TimerHandle | None = None
        self._start()
        if len(self.connections) > most_connections():
            self._make_room()

    def data_received(self, data: bytes) -> None:
        """Stops the clock while a request is under way."""
        super().data_received(data)
        if self.is_waiting:
            self._start()
        else:
            self._stop()

    @property
    def is_waiting(self) -> bool:
        """Whether no request is under way: the next step is the client's."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def _start(self) -> None:
        if self._clock is None:
            loop = asyncio.get_running_loop()
            self.since = loop.time()
            self._clock = loop.call_later(_HEAD, self._too_slow)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _too_slow(self) -> None:
        self._clock = None
        if self.is_waiting and not self.transport.is_closing():
            self.transport.close()

    def _make_room(self) -> None:
        """Closes the connection that has waited longest, or this one if all are being answered."""
        waiting = [one for one in self.connections if isinstance(one, PatientProtocol)]
        waiting = [o for o in waiting if o.is_waiting and not o.transport.is_closing()]
        oldest = min(waiting, key=lambda one: one.since, default=self)
        if oldest is self:
            self.transport.write(_FULL)
        oldest.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the clock."""
        self._stop()
        super().connection_lost(exc)


@cache
def most_connections() -> int:
    """How many a process may have: three for each four files that the system lets it open.

    It asks for as many files as it needs, which are often more than it was given.
    """
    if sys.platform == "win32":
        return _MOST_CONNECTIONS
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited, wanted = resource.RLIM_INFINITY, 2 * _MOST_CONNECTIONS
    if soft != unlimited and soft < wanted:
        most = wanted if hard == unlimited else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
    return _MOST_CONNECTIONS if soft == unlimited else min(_MOST_CONNECTIONS, soft * 3 // 4)


class StudioServer(uvicorn.Server):
    """Tells the app as soon as a signal says stop, so that long connections end."""

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Ends event streams; all other requests are answered."""
        studio = getattr(getattr(self.config.app, "state", None), "studio", None)
        if studio is not None:
            studio.hub.close()
        super().handle_exit(sig, frame)


def bound_socket(settings: ServeSettings) -> socket.socket:
    """Listens, or says in a sentence why it cannot."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol by name: otherwise asyncio leaves Nagle's algorithm on, and the second half of
    # every answer waits 40 ms for the client to confirm the first.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((settings.host.strip("[]"), settings.port))
    except (OSError, OverflowError) as error:
        sock.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"{settings.host} port {settings.port} cannot be used ({reason}): choose another "
            "`port` or `host`"
        ) from None
    sock.set_inheritable(True)
    return sock


def address(settings: ServeSettings, port: int) -> str:
    """Where to find the page, with the token if it is needed to get in."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    token = "" if settings.is_local else f"?token={settings.token}"
    return f"http://{host}:{port}/{token}"


def configuration(app: FastAPI | str, **more: Any) -> uvicorn.Config:
    """How uvicorn is to run the app."""
    sys.setswitchinterval(_SWITCH)
    return uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_GRACE,
        **more,
    )


def serve_app(
    make: Callable[[], FastAPI],
    settings: ServeSettings,
    ready: Callable[[str], None],
    open_page: bool = False,
) -> None:
    """Serves until a signal says stop.

    Args:
        make: Makes the app, once it is clear that the address is free.
        settings: Where to listen.
        ready: Called with the page's address.
        open_page: Whether to open it in a browser.
    """
    sock = bound_socket(settings)
    try:
        server = StudioServer(configuration(make()))
        gc.set_threshold(_NEW_OBJECTS)
        gc.freeze()  # what is loaded stays: collections need not walk through it
        where = address(settings, sock.getsockname()[1])
        sock.listen(2048)
        ready(where)
        if open_page:
            webbrowser.open(where)
        server.run([sock])
    finally:
        sock.close()


def serve_workers(
    factory: str,
    workers: int,
    settings: ServeSettings,
    ready: Callable[[str], None],
    open_page: bool = False,
) -> None:
    """Serves an app from several processes, which share a port; one that dies is replaced.

    Args:
        factory: Where the function is that makes the app, as `module:function`.
        workers: Number of processes.
        settings: Where to listen.
        ready: Called with the page's address.
        open_page: Whether to open it in a browser.
    """
    sock = bound_socket(settings)
    try:
        config = configuration(factory, factory=True, workers=workers)
        sock.listen(2048)
        where = address(settings, sock.getsockname()[1])
        ready(where)
        if open_page:
            webbrowser.open(where)
        Multiprocess(config, [sock]).run()
    finally:
        sock.close()
