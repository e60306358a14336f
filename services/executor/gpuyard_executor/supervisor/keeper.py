"""Keeps the output of a rank that runs in a container: reads its two named pipes into the spool.

The container holds its pipes open for reading as well. So it outlives its keeper: it waits while there is
none, and another goes on where this one stopped. The engine alone knows how the rank ends; the executor
passes that on, and the end is written once all output is on disk.
"""

import os
import socket
import time
from typing import Any

from gpuyard_executor.supervisor.audience import Audience
from gpuyard_executor.supervisor.end import NO_ROOM_MS, write_end
from gpuyard_executor.supervisor.intake import Intake
from gpuyard_executor.supervisor.poller import Poller
from gpuyard_executor.supervisor.spool import Spool, spool_end

PIPES = ("pipes/out", "pipes/err")
"""Below the rank's directory; one for each stream."""
_FORSAKEN_S = 600.0


class Keeper:
    """One container's output, from before its start to its end."""

    def __init__(self, listener: socket.socket, record: int, plan: dict[str, Any]) -> None:
        self._record = record
        self._poller = Poller()
        spool = Spool(plan["segment_bytes"], plan["limit_bytes"], spool_end("."))
        self._audience = Audience(self._poller, spool, self._obey, dict)
        self._audience.open(listener)
        self._intake = Intake(self._poller, spool, self._audience.tell_of_output)
        self._end: dict[str, Any] | None = None
        self._is_started = False
        self._alone_since_s = time.monotonic()

    def run(self) -> None:
        """Serve until the rank has ended and everything is on disk, or nobody asks for it any more."""
        for stream, name in enumerate(PIPES):
            self._intake.add(os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), stream)
        while not (self._end and self._intake.drain()):
            self._poller.wait(self._patience_ms())
            self._intake.adjust()
            if self._is_forsaken():
                return
        write_end(self._record, self._end)
        self._audience.tell({"state": "exited"})

    def _obey(self, message: dict[str, Any]) -> None:
        if message["do"] == "start":
            self._is_started = True
        elif message["do"] == "end":
            self._end = message["end"]

    def _is_forsaken(self) -> bool:
        """No executor, and no container that prints: the yard may have been deleted."""
        if self._audience or (self._is_started and self._intake.has_pipes):
            self._alone_since_s = time.monotonic()
        return time.monotonic() - self._alone_since_s > _FORSAKEN_S

    def _patience_ms(self) -> int:
        must_look_again = self._end or not self._intake.is_open
        return NO_ROOM_MS if must_look_again else int(1000 * _FORSAKEN_S)
