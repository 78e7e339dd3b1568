"""The site of the docs, built once for all tests of a session, however many processes run them."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[1]


def mkdocs(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs MkDocs at the project's root."""
    if find_spec("mkdocs") is None or find_spec("material") is None:
        pytest.skip("MkDocs is not installed (pip install -c constraints.txt '.[docs]')")
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )


def built_site(factory: pytest.TempPathFactory) -> Path:
    """The folder with the site's files."""
    base = factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    site = shared / "site"
    with FileLock(shared / "site.lock"):
        if not site.exists():
            made = shared / "site-in-work"
            done = mkdocs("build", "--strict", "--site-dir", made)
            assert done.returncode == 0, done.stderr
            made.rename(site)
    return site
