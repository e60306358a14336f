"""Which logger owns which partition: rendezvous hashing, so that a logger that comes or goes moves few."""

from collections.abc import Iterable
from hashlib import blake2b


def share_of(logger: str, alive: Iterable[str], partitions: int) -> frozenset[int]:
    """Partitions that this logger is to own, given who is alive. It counts as alive itself."""
    loggers = {logger, *alive}
    return frozenset(
        p for p in range(partitions) if max(loggers, key=lambda each: _weight(each, p)) == logger
    )


def _weight(logger: str, partition: int) -> bytes:
    return blake2b(f"{partition}/{logger}".encode(), digest_size=8).digest()
