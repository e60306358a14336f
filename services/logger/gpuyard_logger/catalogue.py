"""The records of one partition's segments on the bus, and their mirror in the index.

A segment counts once its record is written, and records are only written under the owner's term. So of two
loggers that both believe to own a partition one is refused, and every line is stored once.
"""

import random

from msgspec import Struct

from gpuyard.bus.lease import Reign
from gpuyard.bus.port import From
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Conflict, InvalidSpec, Unavailable
from gpuyard.contracts.segment import Segment
from gpuyard.contracts.subjects import SEGMENT, SEGMENTS_STREAM
from gpuyard.runtime.reject import set_aside
from gpuyard.runtime.retry import backoff_s
from gpuyard.runtime.service import Context
from gpuyard_logger.index import Index, mark_of


class Deposed(Exception):
    """Another logger owns the partition now, or might."""


class Catalogue:
    """Speaks for one reign over one partition."""

    def __init__(self, context: Context, partition: int, reign: Reign, index: Index) -> None:
        self._context = context
        self._partition = partition
        self._reign = reign
        self._index = index

    async def load(self) -> None:
        """Bring the index to what the bus says."""
        records = await self._records()
        replaced = {name for record in records.values() for name in record.replaces}
        mirrored = self._index.marks(self._partition)
        for gone in mirrored.keys() - (records.keys() - replaced):
            self._index.remove(gone)
        for name in replaced & records.keys():
            await self._forget(name)
        for name in records.keys() - replaced:
            if mirrored.get(name) != mark_of(records[name]):
                self._index.add(records[name])

    async def add(self, segment: Segment) -> None:
        """Record a segment, and that others are replaced by it.

        Raises:
            Deposed: the partition has another owner.

        """
        subject = SEGMENT(partition=self._partition, segment=segment.id)
        # A segment moves to another holder, or loses rows, under the same name: so both are part of the id.
        await self.append(subject, segment, f"{segment.id}.{segment.holder}.{len(segment.rows)}")
        self._index.add(segment)
        for replaced in segment.replaces:
            await self._forget(replaced)

    async def remove(self, segment: str) -> None:
        """Forget a segment for good."""
        self._index.remove(segment)
        await self._forget(segment)

    async def record(self, segment: str) -> Segment | None:
        """The record of a segment as it is on the bus; None if there is none.

        Raises:
            Unavailable: the bus does not answer.

        """
        subject = SEGMENT(partition=self._partition, segment=segment)
        message = await self._context.bus.last(SEGMENTS_STREAM, subject)
        return None if message is None else decode(message.payload, Segment)

    async def append(self, subject: str, message: Struct, msg_id: str, ttl_s: float | None = None) -> None:
        """Write under the term, until the answer is known.

        Raises:
            Deposed: the partition has another owner.

        """
        tries = 0
        while True:
            if not self._reign.holds:
                raise Deposed(f"the lease of partition {self._partition} is lost")
            try:
                await self._context.bus.append(
                    subject, encode(message), msg_id=msg_id, expect=self._reign.fence, ttl_s=ttl_s
                )
            except Conflict as error:
                raise Deposed(f"partition {self._partition}: {error.message}") from error
            except Unavailable as error:
                tries += 1
                if tries == 1:
                    self._context.log.warning("not recorded yet", subject=subject, error=error.message)
                await self._context.clock.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311
            else:
                return

    async def _records(self) -> dict[str, Segment]:
        found = {}
        pattern = SEGMENT.some(partition=self._partition)
        async with self._context.bus.read(SEGMENTS_STREAM, pattern, start=From.LAST_PER_SUBJECT) as reader:
            while reader.backlog:
                message = await anext(reader)
                try:
                    record = decode(message.payload, Segment)
                except InvalidSpec as error:
                    await set_aside(self._context, message, error)
                else:
                    found[record.id] = record
        return found

    async def _forget(self, segment: str) -> None:
        """Delete a record. One that stays is deleted at the next load."""
        try:
            subject = SEGMENT(partition=self._partition, segment=segment)
            await self._context.bus.trim(SEGMENTS_STREAM, subject=subject)
        except Unavailable as error:
            self._context.log.warning("record of a replaced segment stays for now", error=error.message)
