"""The page and its files, the OpenAPI document and Swagger UI: all from this package."""

import html
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope as AsgiScope

from tadam.serve.problem import problem

STATIC = Path(__file__).parent / "static"
_NO_CACHE = {"Cache-Control": "no-cache"}


class PageFiles(StaticFiles):
    """Files that a browser asks about each time, so that a new version shows at once."""

    async def get_response(self, path: str, scope: AsgiScope) -> Response:
        """The file, or 304 if the browser has it."""
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        if path.endswith((".js", ".mjs")):
            response.headers["Content-Type"] = "text/javascript; charset=utf-8"
        return response


def add_pages(app: FastAPI, token: str, mode: str) -> None:
    """Adds `/`, `/static` and `/api/v1/docs`, also found at `/docs`.

    Args:
        app: The app.
        token: What the page sends with changing requests.
        mode: `projects`, `project` for one alone, or `classifier` for a served `.tadam` file.
    """
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    def index(_: Request) -> Response:
        if not (STATIC / "index.html").is_file():
            return problem(404, "this copy of tadam has no page: /api/v1/docs shows the API")
        text = (STATIC / "index.html").read_text("utf-8")
        text = text.replace("{{token}}", html.escape(token)).replace("{{mode}}", html.escape(mode))
        return HTMLResponse(text, headers={"Cache-Control": "no-store"})

    @router.get("/api/v1/docs")
    def docs() -> HTMLResponse:
        return HTMLResponse((STATIC / "docs.html").read_text("utf-8"), headers=_NO_CACHE)

    @router.get("/docs")
    def usual_docs() -> RedirectResponse:  # where FastAPI has them by default
        return RedirectResponse("/api/v1/docs")

    app.include_router(router)
    app.mount("/static", PageFiles(directory=STATIC))
