"""A watcher of jobs that remembers."""

from collections.abc import Sequence

from tadam.distributed.jobs import Watcher


class Diary(Watcher):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def running(self, names: Sequence[str], done: int, total: int) -> None:
        self.told.append((list(names), done, total))

    def note(self, text: str) -> None:
        self.told.append(text)
