"""Errors as `application/problem+json` (RFC 9457): a title, a status, and our one sentence."""

import errno
import sqlite3
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tadam.errors import RunFailed, UserError
from tadam.system.untrusted_text import printable

PROBLEM_TYPE = "application/problem+json"


class Refused(UserError):
    """A request that cannot be met: a status and one sentence."""

    def __init__(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, headers


def problem(status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """The answer to a request that cannot be met."""
    content = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": printable(sentence),
    }
    return JSONResponse(content, status, headers, media_type=PROBLEM_TYPE)


def full_disk(error: Exception) -> bool:
    """Whether that is what the error says."""
    if isinstance(error, sqlite3.OperationalError):
        return "full" in str(error)
    number = getattr(error, "errno", None)
    return number in (errno.ENOSPC, errno.EDQUOT) or "the disk is full" in str(error)


DISK_FULL = "the disk is full and nothing of this request was kept: make room, then try again"


def status_of(error: Exception) -> tuple[int, str]:
    """Status and sentence for an error of ours."""
    if isinstance(error, Refused):
        return error.status, str(error)
    if full_disk(error):
        return 507, DISK_FULL
    if isinstance(error, UserError):
        return 422, str(error)
    if isinstance(error, sqlite3.Error):
        return 500, f"the project's database cannot be used ({error}): restore it from a copy"
    if isinstance(error, OSError):
        return 500, f"a file cannot be used ({error.strerror or error}): check the disk"
    return 500, str(error)


def add_handlers(app: FastAPI) -> None:
    """Makes the app answer every error with a problem document."""

    async def ours(_: Request, error: Exception) -> JSONResponse:
        status, sentence = status_of(error)
        return problem(status, sentence, getattr(error, "headers", None))

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return problem(422, validation_sentence(error.errors()))

    async def http(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        sentence = "there is nothing here: check the address" if error.status_code == 404 else ""
        sentence = sentence or f"{error.detail}: see /api/v1/docs for what can be asked"
        return problem(error.status_code, sentence, dict(error.headers or {}))

    async def unexpected(_: Request, error: Exception) -> JSONResponse:
        return problem(500, "something went wrong here: the server's own output says what")

    for kind in (UserError, RunFailed, OSError, sqlite3.Error):
        app.add_exception_handler(kind, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)


def validation_sentence(errors: Any) -> str:
    """The first of several mistakes in a request."""
    first = errors[0] if errors else {}
    place = ".".join(str(part) for part in first.get("loc", ()) if part != "body") or "the body"
    return f"{place}: {first.get('msg', 'not valid')}; see /api/v1/docs for what is expected"
