"""The FastAPI app of a folder of projects: routes, errors, the gate before them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.responses import PlainTextResponse

from tadam import __version__
from tadam.serve.export_routes import exports_router, opened
from tadam.serve.image_routes import images_router
from tadam.serve.model_list import model_items
from tadam.serve.pages import add_pages
from tadam.serve.problem import add_handlers
from tadam.serve.project_routes import projects_router
from tadam.serve.schemas import PROBLEMS, Health, ModelItem
from tadam.serve.security import Gate
from tadam.serve.serve_settings import ServeSettings
from tadam.serve.server_metrics import ServerMetrics, queue_gauges
from tadam.serve.studio import AStudio, Studio

PREFIX = "/api/v1"
about_router = APIRouter(tags=["server"], responses=PROBLEMS)


@about_router.get("/health", response_model=Health)
async def health() -> Any:  # async: it answers while all threads are busy
    """Say whether the server works."""
    return {"status": "ok", "version": __version__}


@about_router.get("/models", response_model=list[ModelItem])
def models() -> Any:
    """List the models that projects can use."""
    return model_items()


@about_router.get("/metrics", response_class=PlainTextResponse)
def metrics(studio: AStudio) -> PlainTextResponse:
    """Show counters in Prometheus's text format."""
    gauges = queue_gauges(studio.queue)
    return PlainTextResponse(studio.metrics.text(gauges), media_type="text/plain; version=0.0.4")


def base_app(
    title: str, settings: ServeSettings, counters: ServerMetrics, lifespan: Any
) -> FastAPI:
    """An app with errors, counters and the gate, without routes."""
    app = FastAPI(
        title=title,
        version=__version__,
        summary="Few-shot image classification: teach it by showing.",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    add_handlers(app)

    app.add_middleware(Gate, settings=settings, counters=counters)
    return app


def studio_app(settings: ServeSettings, folder: Path, photos: Path | None = None) -> FastAPI:
    """The app of a folder of projects, or of one project.

    Args:
        settings: What the server was told.
        folder: The projects.
        photos: A folder of classes to make a project of.
    """
    studio = Studio(settings, folder)
    if photos is not None:
        opened(studio, photos)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        studio.close()

    app = base_app("tadam studio", settings, studio.metrics, lifespan)
    app.state.studio = studio
    for router in (about_router, exports_router, projects_router, images_router):
        app.include_router(router, prefix=PREFIX)
    add_pages(app, settings.token, "project" if studio.library.single else "projects")
    return app
