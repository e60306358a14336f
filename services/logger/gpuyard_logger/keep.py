"""What is kept of a partition and what is not: its pins, and the jobs that were dropped.

Dropping begins with a record that says so; then the job's rows leave the records of its segments. Whoever
owns the partition next goes on from that record, so a drop is never left half done, and a file that turns up
later does not bring the job back.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from msgspec.structs import replace

from gpuyard.bus.port import From
from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import InvalidSpec, NotFound
from gpuyard.contracts.segment import Dropped, Pin, PinRequest, Row, Segment
from gpuyard.contracts.subjects import DROPPED, LOG, LOGS_STREAM, PIN, SEGMENTS_STREAM
from gpuyard.runtime.reject import set_aside
from gpuyard.runtime.service import Context
from gpuyard_logger.catalogue import Catalogue
from gpuyard_logger.keep_index import KeepIndex

T = TypeVar("T")
_REMEMBERED_S = 366 * 86400.0


class Keep:
    """Speaks for one reign over one partition."""

    def __init__(self, context: Context, partition: int, catalogue: Catalogue, index: KeepIndex) -> None:
        self._context = context
        self._partition = partition
        self._catalogue = catalogue
        self._index = index

    async def load(self) -> None:
        """Bring the index to what the bus says, and end what another owner began."""
        self._index.mirror(
            self._partition,
            [pin.job for pin in await self._recorded(PIN.some(partition=self._partition), Pin)],
            await self._recorded(DROPPED.some(partition=self._partition), Dropped),
        )
        if jobs := self._index.uncleared(self._partition):
            await self._clear(jobs)

    def dropped(self, job: str) -> Dropped | None:
        """When and why a job's output was dropped; None if it was not."""
        return self._index.dropped(job)

    # Pins

    async def pin(self, request: PinRequest) -> None:
        """Pin a job's output, or unpin it. When this returns, that is on disk.

        Raises:
            NotFound: it is no longer kept.
            Deposed: the partition has another owner.

        """
        if request.pinned:
            await self._pin(request)
        else:
            await self._context.bus.trim(
                SEGMENTS_STREAM, subject=PIN(partition=self._partition, job=request.job)
            )
            self._index.unpin(request.job)

    async def _pin(self, request: PinRequest) -> None:
        if gone := self.dropped(request.job):
            raise no_longer_kept(gone)
        # In the index first: from now on nobody drops it.
        self._index.pin(self._partition, request.job)
        pin = Pin(request.job, self._context.clock.now(), request.by)
        await self._catalogue.append(
            PIN(partition=self._partition, job=pin.job), pin, f"{pin.job}.pin.{pin.at_s}"
        )

    # Dropping

    async def drop(self, jobs: Mapping[str, str]) -> list[str]:
        """Let the output of these jobs go, for these reasons; pinned ones stay. Returns the segments of which
        nothing is left.

        Raises:
            Deposed: the partition has another owner.

        """
        dropped = []
        for job, why in jobs.items():
            if self._index.is_pinned(job):
                continue
            note = Dropped(job, self._context.clock.now(), why)
            self._index.drop(self._partition, note)
            await self._catalogue.append(
                DROPPED(partition=self._partition, job=job),
                note,
                f"{job}.dropped.{note.at_s}",
                ttl_s=_REMEMBERED_S,
            )
            self._context.log.info("output is no longer kept", job=job, why=why)
            dropped.append(job)
        return await self._clear(dropped)

    async def _clear(self, jobs: Collection[str]) -> list[str]:
        emptied = []
        for name in self._index.segments_of(jobs):
            record = await self._catalogue.record(name)
            if record is not None and await self._take_out(record, jobs):
                emptied.append(name)
        for job in jobs:
            await self._context.bus.trim(LOGS_STREAM, subject=LOG.some(partition=self._partition, job=job))
        return emptied

    async def _take_out(self, record: Segment, gone: Collection[str]) -> bool:
        """Take the rows of these jobs out of a record; True if none is left, and with them the record."""
        rows = tuple(row for row in record.rows if row.job not in gone)
        if rows:
            taken_bytes = _bytes(record.rows) - _bytes(rows)
            await self._catalogue.add(
                replace(record, rows=rows, dropped_bytes=record.dropped_bytes + taken_bytes)
            )
        else:
            await self._catalogue.remove(record.id)
        return not rows

    async def _recorded(self, pattern: str, kind: type[T]) -> list[T]:
        found = []
        async with self._context.bus.read(SEGMENTS_STREAM, pattern, start=From.LAST_PER_SUBJECT) as reader:
            while reader.backlog:
                message = await anext(reader)
                try:
                    found.append(decode(message.payload, kind))
                except InvalidSpec as error:
                    await set_aside(self._context, message, error)
        return found


def no_longer_kept(gone: Dropped) -> NotFound:
    """The answer to who asks for output that was dropped."""
    since = datetime.fromtimestamp(gone.at_s, UTC)
    return NotFound(
        f"the output of {gone.job} is no longer kept since {since:%Y-%m-%d %H:%M} UTC: {gone.why}",
        "Rules are in [logger.keep]; a pinned job's output stays.",
        job=gone.job,
        since_s=gone.at_s,
    )


def _bytes(rows: Collection[Row]) -> int:
    return sum(row.size_bytes for row in rows)
