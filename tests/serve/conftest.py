"""One server of projects for all tests of its API, and a classifier in a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from serving import TOKEN, Client, client, folder_of_classes, in_thread
from tadam.classify.classifier import FewShotClassifier
from tadam.serve.app import studio_app
from tadam.serve.serve_settings import ServeSettings


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of projects in a thread of this process."""
    settings = ServeSettings(port=0, token=TOKEN, max_upload=20 * 2**20, patience=1.5)
    folder = tmp_path_factory.mktemp("projects")
    with in_thread(studio_app(settings, folder), settings) as where:
        yield where


@pytest.fixture
def web(server: str) -> Iterator[Client]:
    with client(server) as found:
        yield found


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> FewShotClassifier:
    """What `fit` makes of photos 0 to 4 of two subjects."""
    folder = folder_of_classes(tmp_path_factory.mktemp("fit"), range(5), ["box", "disc"])
    return FewShotClassifier("imagenet").fit(folder)


@pytest.fixture(scope="session")
def classifier_file(fitted: FewShotClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("classifier") / "shapes.tadam"
    fitted.save(path)
    return path
