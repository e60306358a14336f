"""Ports for the ranks 0 of gangs to listen on."""

import socket
from zlib import crc32

from gpuyard_executor.core.rank import GangKey


class Ports:
    """A range that the kernel does not use for outgoing connections.

    A port can't be held open for a program that will open it itself. So it is tried once and then remembered;
    where the search begins depends on the gang, to keep executors on the same machine apart.
    """

    def __init__(self, first: int, last: int) -> None:
        self._first = first
        self._count = max(0, last - first + 1)
        self._reserved: dict[GangKey, int] = {}

    def reserve(self, gang: GangKey, known: int | None = None) -> int | None:
        """The gang's port, the same at every call; None if none is free."""
        if gang not in self._reserved:
            port = known or self._find(gang)
            if port is None:
                return None
            self._reserved[gang] = port
        return self._reserved[gang]

    def free(self, gang: GangKey) -> None:
        self._reserved.pop(gang, None)

    def _find(self, gang: GangKey) -> int | None:
        begin = crc32(str(gang).encode())
        taken = set(self._reserved.values())
        for step in range(self._count):
            port = self._first + (begin + step) % self._count
            if port not in taken and _is_free(port):
                return port
        return None


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True
