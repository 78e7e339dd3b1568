"""Real data: $TADAM_DATA, else ../shared/data beside the project; skipped where there is none."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tadam.data.catalogue import find_source

# Read before the session's fixtures take the variable away.
ROOT = Path(os.environ.get("TADAM_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.fixture
def real_data(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes real data found, or skips: `root = real_data("fc100")`."""

    def use(name: str) -> Path:
        find = find_source(name).find
        assert find is not None
        if not find(ROOT):
            pytest.skip(f"{name} is not in {ROOT}: set TADAM_DATA to a folder that has it")
        monkeypatch.setenv("TADAM_DATA", str(ROOT))
        return ROOT

    return use
