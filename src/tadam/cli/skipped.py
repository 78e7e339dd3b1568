"""Files that a command skips: said on stderr, the first of them one by one."""

from collections.abc import Iterator
from contextlib import contextmanager

from tadam.reports.terminal import err
from tadam.system.untrusted_text import printable

#: Sentences about broken files that are printed; the rest is only counted.
_SHOWN = 20


@contextmanager
def told() -> Iterator[list[str]]:
    """Yields a list for sentences on what is skipped; they are printed whatever happens."""
    problems: list[str] = []
    try:
        yield problems
    finally:
        for sentence in problems[:_SHOWN]:
            err.print(f"skipped: {printable(sentence)}", soft_wrap=True)
        if len(problems) > _SHOWN:
            err.print(f"skipped: {len(problems) - _SHOWN} more files")
