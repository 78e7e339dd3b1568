"""Who may ask: the Host header, the token, where a request comes from, and what pages may do."""

import asyncio
import hmac
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response

from tadam.serve.problem import Refused, problem
from tadam.serve.serve_settings import ServeSettings, is_loopback
from tadam.serve.server_metrics import ServerMetrics

COOKIE = "tadam-token"
#: Seconds for a refused client to finish sending.
_LINGER = 2.0
#: A body may take this many times the patience for one part of it, and a second for each so many
#: bytes: 64 kbit/s. Whoever sends a byte now and then would stay for ever otherwise.
_PARTS, _SLOWEST = 4, 8 * 2**10
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
#: What anybody may ask, for load balancers: it says nothing but that the server works.
_OPEN = "/api/v1/health"
#: Questions, which change nothing. A project may be named `predict` too.
_QUESTION = re.compile(r"/api/v1/(projects/[^/]+/)?predict")

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; media-src 'self' blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(self), microphone=(), geolocation=()",
}
_RAW_HEADERS = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Gate:
    """Stands before the app: refuses what must not pass, and marks what goes out."""

    def __init__(self, app: Any, settings: ServeSettings, counters: ServerMetrics) -> None:
        self._app, self._settings, self._counters = app, settings, counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def marked(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {name for name, _ in message["headers"]}
                more = (header for header in _RAW_HEADERS if header[0] not in own)
                message["headers"] = [*message["headers"], *more]
            await send(message)

        try:
            await self._answer(scope, receive, marked, lambda: status > 0)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self._counters.note(scope["method"], route, status, time.perf_counter() - start)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, started: Callable[[], bool]
    ) -> None:
        body = _Body(receive, self._settings)

        async def patient(message: MutableMapping[str, Any]) -> None:
            if message.get("status") in (408, 413) and not body.is_whole:
                message["headers"] = [*message["headers"], (b"connection", b"close")]
                await _drained(receive)
            await send(message)

        refusal = self._refusal(scope, Headers(scope=scope))
        if refusal is None:
            try:
                await self._app(scope, body, patient)
                return
            except Refused as error:  # from `body`, where nothing of the app catches it
                if started():
                    raise
                refusal = problem(error.status, str(error), error.headers)
        await refusal(scope, receive, patient)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer to a request that must not pass; None for the others."""
        if self._settings.is_local and not is_loopback(host_name(headers.get("host", ""))):
            return problem(
                403, "this server answers to localhost only: open it by http://127.0.0.1 instead"
            )
        if _is_foreign(headers):
            return problem(403, "another web page may not use this server: use its own page")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > self._settings.max_upload:
            return too_large(self._settings)
        return self._without_token(scope, headers)

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        path, changing = scope["path"], scope["method"] not in _SAFE_METHODS
        shown = self._is_token(headers.get("x-tadam-token")) or self._is_token(
            headers.get("authorization", "").removeprefix("Bearer ")
        )
        if shown or (path == _OPEN and not changing):
            return None
        if self._settings.is_local:
            # Programs of this machine may ask without it.
            is_question = scope["method"] == "POST" and _QUESTION.fullmatch(path)
            if changing and not is_question:
                return problem(403, "this request changes something: send the X-Tadam-Token header")
            return None
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        if not changing and path == "/" and self._is_token(query.get("token", [""])[0]):
            return self._welcome()
        # Not SimpleCookie, which stumbles over names that other servers of this host may choose.
        if not changing and self._is_token(cookie_parser(headers.get("cookie", "")).get(COOKIE)):
            return None
        return problem(
            401,
            "this server wants its token: open the address it printed, or send the token in the "
            "Authorization header",
            {"WWW-Authenticate": "Bearer"},
        )

    def _welcome(self) -> Response:
        """Keeps the token in a cookie that no script can read, and out of the address."""
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, self._settings.token, httponly=True, samesite="strict")
        return answer

    def _is_token(self, text: str | None) -> bool:
        """Compares in a time that does not tell how much of it is right."""
        return hmac.compare_digest((text or "").encode(), self._settings.token.encode())


def host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _is_foreign(headers: Headers) -> bool:
    """Whether another web page sent the request, as far as the browser says."""
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        # A link to the page from elsewhere may open it.
        return headers.get("sec-fetch-mode") != "navigate"
    origin = headers.get("origin")
    try:
        return origin is not None and urlsplit(origin).netloc != headers.get("host", "")
    except ValueError:  # such as http://[
        return True


def too_large(settings: ServeSettings) -> Response:
    """The answer to a body beyond the limit."""
    return problem(413, _too_large(settings))


def _too_large(settings: ServeSettings) -> str:
    return f"a request may have {settings.max_upload / 2**20:,.0f} MB at most: send fewer photos"


async def _drained(receive: Receive) -> None:
    """Discards the rest of a body for a while: a client that still sends would miss the answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER):
            message = await receive()
            while message["type"] == "http.request" and message.get("more_body", False):
                message = await receive()


class _Body:
    """Receives a body, but not more than the limit, and not from one who sends next to nothing."""

    def __init__(self, receive: Receive, settings: ServeSettings) -> None:
        self._receive, self._settings = receive, settings
        self._bytes, self._waited, self.is_whole = 0, 0.0, False

    async def __call__(self) -> MutableMapping[str, Any]:
        if self.is_whole:  # waits for the client to go, for as long as the answer takes
            return await self._receive()
        patience, start = self._settings.patience, time.monotonic()
        left = _PARTS * patience + self._bytes / _SLOWEST - self._waited
        try:
            async with asyncio.timeout(min(patience, left)):
                message = await self._receive()
        except TimeoutError:
            raise Refused(408, "the request did not arrive in time: send it again") from None
        self._waited += time.monotonic() - start
        if message["type"] == "http.request":
            self._bytes += len(message.get("body", b""))
            self.is_whole = not message.get("more_body", False)
            if self._bytes > self._settings.max_upload:
                raise Refused(413, _too_large(self._settings))
        return message
