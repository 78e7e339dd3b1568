"""How far a long task is: what progress bars are told."""

from collections.abc import Callable

#: Called with how much is done and how much there is in all.
Progress = Callable[[int, int], None]
