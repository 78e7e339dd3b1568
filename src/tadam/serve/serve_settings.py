"""What a server is told when it starts."""

import ipaddress
import secrets
from dataclasses import dataclass, field

#: Bytes of a request, files in it, and bytes of one field that is not a file.
MAX_UPLOAD, MAX_FILES, MAX_FIELD = 2 * 2**30, 10_000, 64 * 2**10


@dataclass(frozen=True)
class ServeSettings:
    """How a server listens and what it allows.

    Attributes:
        host: Address to listen on.
        port: Port to listen on; 0 for a free one.
        token: What changing requests have to carry, and on another address than loopback all.
        max_upload: Most bytes in a request.
        max_files: Most files in a request.
        queue: Most photos that wait for an answer; more are turned away.
        gather: Seconds that a prediction waits for others to go with.
        patience: Seconds that a client may take to send the next part of a request.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    max_upload: int = MAX_UPLOAD
    max_files: int = MAX_FILES
    queue: int = 256
    gather: float = 0.003
    patience: float = 30.0

    @property
    def is_local(self) -> bool:
        """Whether only programs of this machine can connect."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether an address or name means this machine alone."""
    bare = host.strip("[]").lower()
    if bare == "localhost" or bare.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False
