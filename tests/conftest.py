"""What all tests share: a cache folder of the session's own, one thread, the command line."""

import os
import secrets
import warnings
from collections.abc import Callable, Iterator

import hypothesis
import pytest
import torch

from command_line import CommandLine
from stores import store_of
from tadam import native
from tadam.data.store import ImageStore

# The same examples in every run, and no failure because the machine was busy.
hypothesis.settings.register_profile("tadam", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("tadam")


@pytest.fixture(scope="session", autouse=True)
def _own_cache_and_one_thread(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the user's cache out of it; `shapes` is drawn once for all tests and workers."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(root / "cache"))
        patch.delenv("TADAM_DATA", raising=False)
        # A process keeps the first token that Ray reads, so all its tests must use the same.
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        torch.set_num_threads(1)
        with warnings.catch_warnings(action="ignore"):
            if not native.available():
                patch.setenv("TADAM_NATIVE", "0")  # or some test's stderr would have the note
        yield


@pytest.fixture
def tadam(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Runs `tadam ARGS` in this process."""
    return CommandLine(monkeypatch, capsys)


@pytest.fixture(scope="session")
def make_store() -> Callable[..., ImageStore]:
    """The function `store_of`, for tests that name their own class sizes."""
    return store_of
