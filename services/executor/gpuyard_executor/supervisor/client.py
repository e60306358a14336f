"""A connection from an executor to a supervisor: JSON objects, one per line."""

import json
import socket
from collections.abc import Iterator
from typing import Any

_READ_BYTES = 65536


class Client:
    """The supervisor's end."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection = connection
        self.wants_after: int | None = None
        """Tell, once, when there is output beyond this position."""
        self._partial = b""

    def fileno(self) -> int:
        return self.connection.fileno()

    def receive(self) -> Iterator[dict[str, Any]]:
        """Complete messages.

        Raises:
            OSError: it went away.

        """
        data = self.connection.recv(_READ_BYTES)
        if not data:
            raise ConnectionResetError
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            yield json.loads(line)

    def send(self, message: dict[str, Any]) -> None:
        """Send at once: who leaves a few short lines unread is as good as gone.

        Raises:
            OSError: it can't take the message.

        """
        line = json.dumps(message).encode() + b"\n"
        if self.connection.send(line) < len(line):
            raise ConnectionAbortedError
