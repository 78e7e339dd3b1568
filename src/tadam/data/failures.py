"""Turns whatever a decoder raises for a damaged file into one sentence about that file.

Decoders raise nearly anything, from KeyError to zlib.error, so everything is caught. What passes is
a sentence that is there already, and what is not an error of the file, such as Ctrl-C.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tadam.errors import UserError


@contextmanager
def in_a_sentence(name: str, remedy: str, show_reason: bool = False) -> Iterator[None]:
    """Turns an exception in the block into a `UserError`.

    Args:
        name: What is read.
        remedy: What to do about a damaged file.
        show_reason: Whether the decoder's own words are worth reading.
    """
    try:
        yield
    except UserError:
        raise
    except (MemoryError, OverflowError):
        raise UserError(
            f"{name} needs more memory than this machine has: it is damaged, or too large to read"
        ) from None
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise UserError(f"{name} cannot be opened: {error.strerror}") from None
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        shown = f" ({reason})" if show_reason else " or truncated"
        raise UserError(f"{name} is damaged{shown}: {remedy}") from None
