"""Clients that send next to nothing, and more connections than there is room for."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from serving import API, TOKEN, Client, client, in_thread
from tadam.serve import run
from tadam.serve.app import studio_app
from tadam.serve.serve_settings import ServeSettings

HEALTH = f"GET {API}/health HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, Client]]:
    settings = ServeSettings(port=0, token=TOKEN, patience=0.5)
    with in_thread(studio_app(settings, folder), settings) as where, client(where) as web:
        yield where, web


def connected(where: str) -> socket.socket:
    place = urlsplit(where)
    return socket.create_connection((place.hostname, place.port), timeout=20)


def asked(one: socket.socket) -> bytes:
    """The answer to a request for the server's health."""
    one.sendall(HEALTH)
    said = one.recv(10_000)
    while said and not said.endswith(b"}"):
        said += one.recv(10_000)
    return said


def said_while_trickling(one: socket.socket, seconds: float) -> bytes:
    """What the server says to one who sends a byte now and then; fails if it never ends."""
    one.settimeout(0.2)
    end, said = time.monotonic() + seconds, b""
    while time.monotonic() < end:
        try:
            one.sendall(b"a")
            got = one.recv(10_000)
        except TimeoutError:
            continue
        except OSError:
            return said
        if not got:
            return said
        said += got
    pytest.fail("the connection is open still")


def test_the_head_of_every_request_has_its_time_not_only_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_HEAD", 1.0)
    with served(tmp_path) as (where, _), connected(where) as one:
        for _ in range(2):
            assert asked(one).startswith(b"HTTP/1.1 200")
            time.sleep(1.2)  # an idle connection is welcome
        one.sendall(b"GET / HTTP/1.1\r\nX-A: ")
        assert said_while_trickling(one, 5) == b""


def test_a_body_that_trickles_in_is_refused_after_a_while(tmp_path: Path) -> None:
    with served(tmp_path) as (where, web), connected(where) as one:
        project = web.project("Slow")
        head = f"POST {project}/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
        one.sendall(head.encode())
        said = said_while_trickling(one, 8)
        assert said.startswith(b"HTTP/1.1 408")
        assert b"in time" in said


def test_whoever_waits_longest_makes_room_and_nobody_who_is_being_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "most_connections", lambda: 4)
    with served(tmp_path) as (where, web), ExitStack() as stack:
        project = web.project("Watched")
        web.close()
        idle = [stack.enter_context(connected(where)) for _ in range(4)]
        watching = []
        for _ in range(4):
            one = stack.enter_context(connected(where))
            one.sendall(f"GET {project}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert one.recv(10_000).startswith(b"HTTP/1.1 200")
            watching.append(one)
        assert [one.recv(100) for one in idle] == [b""] * 4
        late = stack.enter_context(connected(where))
        assert late.recv(10_000).startswith(b"HTTP/1.1 503")
        watching[0].close()
        time.sleep(0.3)
        again = stack.enter_context(connected(where))
        assert asked(again).startswith(b"HTTP/1.1 200")


def test_a_thousand_clients_at_once_are_answered(tmp_path: Path) -> None:
    if run.most_connections() < 1000:
        pytest.skip("this user may not open as many files")
    with served(tmp_path) as (where, _), ExitStack() as stack:
        many = [stack.enter_context(connected(where)) for _ in range(1000)]
        for one in many:
            one.sendall(HEALTH)
        assert all(one.recv(10_000).startswith(b"HTTP/1.1 200") for one in many)
