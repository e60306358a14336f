"""One rank as its supervisor tells it: the connection, the state, the signal that there is output."""

import asyncio
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gpuyard.contracts.fact import RankState
from gpuyard.contracts.job import ExitCause
from gpuyard.runtime.retry import backoff_s
from gpuyard_executor.core.rank import RankEnd, RankKey, RankStatus
from gpuyard_executor.core.states import step
from gpuyard_executor.leftovers import kill_leftovers
from gpuyard_executor.rank_directory import RankDirectory, boot_id, rank_end
from gpuyard_executor.rank_record import EndLine

_RETRY_S = 0.01


class SupervisedRank(asyncio.Protocol):
    """Follows one rank from its preparation, or from being found again, to its end."""

    def __init__(self, key: RankKey, directory: RankDirectory, changed: Callable[[RankStatus], None]) -> None:
        self.directory = directory
        self.status = RankStatus(key, RankState.PREPARING)
        self._changed = changed
        self._spooled = asyncio.Event()
        self._unsent: list[bytes] = []
        self._lost = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._partial = b""

    # -- the life of the connection ------------------------------------------------------------------------

    async def follow(self) -> None:
        """Stay connected until the rank has exited; find out how it ended if nobody tells."""
        while not self._read_end():
            try:
                await self._connect()
            except OSError:
                if not self.directory.is_supervised():
                    await self._conclude()
                    return
                await asyncio.sleep(_RETRY_S)  # it is about to come, or about to go
                continue
            await self._lost.wait()

    async def _connect(self) -> None:
        self._lost.clear()
        connection = self.directory.connect()
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=connection)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._partial = b""
        for line in self._unsent:
            transport.write(line)
        self._unsent.clear()
        self._spooled.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lost.set()

    def data_received(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._hear(json.loads(line))

    def _hear(self, message: Mapping[str, Any]) -> None:
        if "output" in message:
            self._spooled.set()
        elif message["state"] == RankState.EXITED:
            self._read_end()
        elif (state := RankState(message["state"])) is RankState.RUNNING or not self._has_begun:
            self._enter(replace(self.status, state=state, started_at_s=message["started_at_s"]))

    def disconnect(self) -> None:
        if self._transport:
            self._transport.abort()

    # -- what it is told -----------------------------------------------------------------------------------

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send to the supervisor as soon as it is connected; nobody waits for that."""
        line = json.dumps(message).encode() + b"\n"
        if self._transport:
            self._transport.write(line)
        else:
            self._unsent.append(line)

    async def output_after(self, offset: int) -> None:
        """Wait until there may be output beyond a position. May return early."""
        self._spooled.clear()
        if self._transport:
            self._transport.write(json.dumps({"do": "wait", "offset": offset}).encode() + b"\n")
        if not self.has_exited:
            await self._spooled.wait()

    # -- where it stands -----------------------------------------------------------------------------------

    @property
    def has_exited(self) -> bool:
        return self.status.state is RankState.EXITED

    @property
    def _has_begun(self) -> bool:
        """It may be known from the record before its supervisor says so."""
        return self.status.state is RankState.RUNNING

    def recall(self) -> None:
        """Learn from the directory alone where the rank of an earlier executor stands."""
        if self._read_end():
            return
        record = self.directory.record()
        has_begun = record is not None and record.pid
        state = RankState.RUNNING if has_begun else RankState.READY
        started_at_s = self.directory.began_at_s() if has_begun else None
        self.status = replace(self.status, state=state, started_at_s=started_at_s)

    def _read_end(self) -> bool:
        record = None if self.has_exited else self.directory.record()
        if record and record.end:
            self._exit(rank_end(record.plan, record.end), record.end.started_at_s)
        return self.has_exited

    async def _conclude(self) -> None:
        """Its supervisor is gone without a word. Nothing may be left of a rank that counts as exited."""
        if self._read_end():
            return
        record = self.directory.record()
        if record is None or not record.pid:
            self.fail("its supervisor ended before the start")
            return
        rebooted = record.plan.boot != boot_id()
        if not rebooted:
            await kill_leftovers(self.directory.path, record.pid)
        cause = ExitCause.NODE_LOST if rebooted else ExitCause.UNKNOWN
        end = EndLine(None, self.directory.began_at_s(), time.time(), lost=cause)
        is_written = self.directory.write_end(end)
        self._exit(rank_end(record.plan, end), end.started_at_s)  # nobody shall wait for room on a disk
        if not is_written:
            await self._write_down(end)

    async def _write_down(self, end: EndLine) -> None:
        """An executor after this one shall find the end as well."""
        tries = 1
        while not self.directory.write_end(end):
            tries += 1
            await asyncio.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311 - jitter

    def fail(self, message: str) -> None:
        """It never got to run, through no fault of the program."""
        self._exit(RankEnd(None, time.time(), cause=ExitCause.LAUNCH, message=message), None)

    def _exit(self, end: RankEnd, started_at_s: float | None) -> None:
        self._enter(replace(self.status, state=RankState.EXITED, started_at_s=started_at_s, end=end))
        self._spooled.set()

    def _enter(self, status: RankStatus) -> None:
        if status == self.status or self.has_exited:
            return
        step(self.status.state, status.state)
        self.status = status
        self._changed(status)
