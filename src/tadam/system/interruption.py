"""Ctrl-C and SIGTERM: a flag that stops a run between two steps, or a custom handler."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def interruption() -> Iterator[Callable[[], bool]]:
    """Turns Ctrl-C and SIGTERM into a flag; a second Ctrl-C interrupts at once."""
    received = False

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal received
        if received:
            signal.default_int_handler(number, frame)
        received = True

    try:
        previous = {s: signal.signal(s, handler) for s in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: our caller handles signals
        previous = {}
    try:
        yield lambda: received
    finally:
        for number, old in previous.items():
            signal.signal(number, old)


def on_terminate(handler: Any) -> Any:
    """Sets the SIGTERM handler and returns the old one; does nothing outside the main thread."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    return signal.signal(signal.SIGTERM, handler or signal.SIG_DFL) if in_main_thread else None
