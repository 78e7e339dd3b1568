"""Chromium and a server for it; skipped where there is no Chromium."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from running_studio import RunningStudio
from studio_page import StudioPage
from tadam.config import Config
from tadam.methods.base import InputSpec
from tadam.methods.tadam import Tadam
from tadam.models.modelfile import ModelInfo, save_model

#: Milliseconds that a step may take; a busy machine is not a fault of the page.
_PATIENCE = 30_000
_FLAGS = (
    "--no-sandbox",
    "--disable-background-networking",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, closed again after a file of tests: its event loop would disturb others."""
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    expect.set_options(timeout=_PATIENCE)
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=found, args=list(_FLAGS))
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that looks at pixels alone: it opens and answers at once."""
    path = tmp_path_factory.mktemp("model") / "pixels.safetensors"
    changes = {"backbone": {"name": "pixels"}, "conditioning": {"enabled": False}}
    config = Config().updated(changes)
    spec = InputSpec(3, 16, 4)
    save_model(path, Tadam.build(config, spec), ModelInfo(config, spec))
    return str(path)


@pytest.fixture(scope="module")
def server(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStudio]:
    """A server with a folder of projects, for all tests of a file."""
    folder = tmp_path_factory.mktemp("studio")
    running = RunningStudio(folder / "projects", folder / "log.txt")
    yield running
    running.stop()


@pytest.fixture
def open_studio(browser: Browser) -> Iterator[Callable[..., StudioPage]]:
    """Opens the page in a window of its own; at the end, looks whether anything went wrong."""
    contexts: list[BrowserContext] = []
    pages: list[StudioPage] = []

    def opened(running: RunningStudio, project: str | None = None, **options: object) -> StudioPage:
        size = {"viewport": {"width": 1440, "height": 900}}
        context = browser.new_context(**{**size, **options})  # type: ignore[arg-type]
        context.set_default_timeout(_PATIENCE)
        contexts.append(context)
        page: Page = context.new_page()
        studio = StudioPage(page, running)
        pages.append(studio)
        page.goto(running.address + (f"/#/p/{project}" if project else "/"))
        return studio

    yield opened
    for context in contexts:
        context.close()
    for studio in pages:
        assert studio.errors == []
        assert studio.strangers == []


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures of the page go: $TADAM_PICTURES, else a temporary folder."""
    named = os.environ.get("TADAM_PICTURES")
    folder = Path(named) if named else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
