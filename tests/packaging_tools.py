"""Builds the sdist and a wheel as pip would, from a copy of the repository."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_RUBBISH = ("__pycache__", "*.so", "*.dylib", "*.pyd", "*.egg-info", ".*_cache", ".hypothesis")


@dataclass(frozen=True)
class Package:
    """What was built, and what from.

    Attributes:
        files: Every file of the repository, relative to its root.
        sdist: The archive.
        unpacked: The sdist's own folder.
        wheel: Built from the unpacked sdist without the native core.
    """

    files: frozenset[str]
    sdist: Path
    unpacked: Path
    wheel: Path


def build(hook: str, source: Path, out: Path, **environment: str) -> Path:
    """Calls one of setuptools' hooks as pip would, and returns what it made."""
    call = f"from setuptools import build_meta as b; print('made', b.{hook}({str(out)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", call],
        cwd=source,
        env={**os.environ, "PYTHONPATH": "", **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return out / done.stdout.splitlines()[-1].removeprefix("made ")


def repository() -> list[str]:
    """The files that Git knows or would add; all of an unpacked sdist."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    generated = ("PKG-INFO", "setup.cfg", ".venv")
    return [
        path.as_posix()
        for path in found
        if path.parts[0] not in generated
        and not any(Path(part).match(pattern) for part in path.parts for pattern in _RUBBISH)
    ]
