"""A `.tadam` file as a prediction service: the app, one of several processes of it, or Ray's."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import torch
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import PlainTextResponse

from tadam.classify.classifier import FewShotClassifier
from tadam.serve.app import PREFIX, base_app, health
from tadam.serve.events import EventHub
from tadam.serve.pages import add_pages
from tadam.serve.predicting import answered
from tadam.serve.prediction_queue import PhotoQueue, PredictionQueue
from tadam.serve.project_routes import QUESTION
from tadam.serve.schemas import PROBLEMS, AnswerList, ClassifierFacts, Health
from tadam.serve.serve_settings import ServeSettings
from tadam.serve.server_metrics import ServerMetrics, queue_gauges
from tadam.serve.taught import from_file
from tadam.serve.uploads import sent_files

#: Environment of the processes of `--workers`: the file, the settings, threads of each.
_VARIABLE = "TADAM_SERVE"


class ServedClassifier:
    """A classifier that many ask at once.

    Args:
        path: A `.tadam` file.
        settings: What the server was told.
        queue: What embeds photos; None for this process's own.
    """

    def __init__(
        self, path: Path, settings: ServeSettings, queue: PhotoQueue | None = None
    ) -> None:
        self.settings, self.name, self.metrics = settings, path.name, ServerMetrics()
        self.hub = EventHub()
        self.queue = queue or PredictionQueue(settings.queue, settings.gather)
        self.taught = from_file(FewShotClassifier.load(path, device="cpu"), self.queue.pool)

    def facts(self) -> dict[str, Any]:
        """What is served."""
        classifier = self.taught.classifier
        assert classifier is not None
        rows = zip(self.taught.class_ids, classifier.classes_, classifier.shots_, strict=True)
        return {
            "name": self.name,
            "model": classifier.model_name_,
            "classes": [
                {"id": number, "name": str(name), "count": int(count), "accuracy": None}
                for number, name, count in rows
            ],
            "image_size": classifier.predictor_.image_size,
            "reject_threshold": classifier.reject_threshold_,
        }


async def _served(request: Request) -> ServedClassifier:
    found: ServedClassifier = request.app.state.studio  # async, or it would cost a thread
    return found


_Served = Annotated[ServedClassifier, Depends(_served)]
classifier_router = APIRouter(tags=["predict"], responses=PROBLEMS)


@classifier_router.post("/predict", response_model=AnswerList, openapi_extra=QUESTION)
async def predict(request: Request, served: _Served) -> Any:
    """Classify photos: a form with `files`, or the bytes of one photo as the body."""
    async with sent_files(request, served.settings) as sent:
        model = served.name
        return await answered(served.queue, served.taught, sent.files, model, 1)


classifier_router.get("/health", response_model=Health)(health)


@classifier_router.get("/info", response_model=ClassifierFacts)
def info(served: _Served) -> Any:
    """Say what is served."""
    return served.facts()


@classifier_router.get("/metrics", response_class=PlainTextResponse)
def metrics(served: _Served) -> PlainTextResponse:
    """Show counters in Prometheus's text format; each worker has its own."""
    text = served.metrics.text(queue_gauges(served.queue))
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


def classifier_app(settings: ServeSettings, path: Path, queue: PhotoQueue | None = None) -> FastAPI:
    """The app of a `.tadam` file."""
    served = ServedClassifier(path, settings, queue)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        served.hub.close()
        served.queue.close()

    app = base_app(f"tadam: {path.name}", settings, served.metrics, lifespan)
    app.state.studio = served
    app.include_router(classifier_router, prefix=PREFIX)
    add_pages(app, settings.token, "classifier")
    return app


def tell_workers(settings: ServeSettings, path: Path, workers: int) -> None:
    """Leaves word for the processes that `from_environment` runs in."""
    threads = max(1, torch.get_num_threads() // workers)
    told = {"settings": asdict(settings), "path": str(path.absolute()), "threads": threads}
    os.environ[_VARIABLE] = json.dumps(told)


def from_environment() -> FastAPI:
    """The app in one of several processes."""
    told = json.loads(os.environ[_VARIABLE])
    torch.set_num_threads(told["threads"])
    return classifier_app(ServeSettings(**told["settings"]), Path(told["path"]))
