"""Starts a server, and stops it without losing what it has accepted."""

import asyncio
import gc
import socket
import sys
import webbrowser
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from tadam.errors import UserError
from tadam.serve.serve_settings import ServeSettings

#: Seconds for a client to send the head of its first request.
_HEAD = 20.0
#: Seconds for requests that are under way when the server is told to stop.
_GRACE = 60
#: Seconds after which the thread that speaks HTTP makes room for those that read photos, if they
#: wait. With Python's 5 ms, each step of reading would wait for as long while answers go out.
_SWITCH = 0.0005
#: New objects after which Python looks for cycles among them. A request makes hundreds.
_NEW_OBJECTS = 20_000


class PatientProtocol(H11Protocol):
    """HTTP/1.1 that closes connections which never finish a request's head (slow loris)."""

    def connection_made(self, transport: Any) -> None:
        """Starts the clock."""
        super().connection_made(transport)
        self._clock = asyncio.get_running_loop().call_later(_HEAD, self._too_slow)

    def _too_slow(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops it."""
        self._clock.cancel()
        super().connection_lost(exc)


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
    factory: str, workers: int, settings: ServeSettings, ready: Callable[[str], None]
) -> None:
    """Serves an app from several processes, which share a port; one that dies is replaced.

    Args:
        factory: Where the function is that makes the app, as `module:function`.
        workers: Number of processes.
        settings: Where to listen.
        ready: Called with the page's address.
    """
    sock = bound_socket(settings)
    try:
        config = configuration(factory, factory=True, workers=workers)
        sock.listen(2048)
        ready(address(settings, sock.getsockname()[1]))
        Multiprocess(config, [sock]).run()
    finally:
        sock.close()
