"""How a result that is computed without training came about: command, minutes, machine."""

import shlex
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import torch

from tadam import __version__, native
from tadam.system.machine import machine

#: What `origin` returns; empty in results that were stored before it was recorded.
Origin = dict[str, Any]


def origin(words: Sequence[object], started: float) -> Origin:
    """The origin of a result that is finished now.

    Args:
        words: The command, as the arguments of `tadam reproduce`.
        started: What `time.monotonic()` was when its computation began.
    """
    return {
        "command": shlex.join(["tadam", "reproduce", *map(str, words)]),
        "minutes": round((time.monotonic() - started) / 60, 3),
        "machine": machine(torch.get_num_threads(), native.core()),
        "version": __version__,
        "date": datetime.now(UTC).date().isoformat(),
    }


def origin_lines(found: Origin) -> list[str]:
    """A line of Markdown with a blank one before; none for a result without an origin."""
    if not found:
        return []
    here = found["machine"]
    return [
        "",
        f"`{found['command']}`, {found['minutes']:.1f} minutes on {found['date']}: {here['cpu']}, "
        f"{here['threads']} of {here['cores']} cores, {here['core']} core, torch {here['torch']}, "
        f"tadam {found['version']}.",
    ]
