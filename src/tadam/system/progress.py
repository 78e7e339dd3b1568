"""The callback that reports progress to a progress bar."""

from collections.abc import Callable

#: Called with (done, total).
Progress = Callable[[int, int], None]
