"""An image that is not a file of its own: a member of an archive, or bytes in memory."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Encoded:
    """The content of an image file that lies elsewhere.

    Attributes:
        name: What to call it in a sentence.
        read: Returns its bytes; may be called from any thread.
        path: Where it is, as far as that can be said, such as `flowers.zip/rose/1.jpg`; None for
            bytes in memory.
    """

    name: str
    read: Callable[[], bytes]
    path: str | None = None
