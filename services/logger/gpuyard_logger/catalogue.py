"""The records of one partition's segments on the bus, and their mirror in the index.

A segment counts once its record is written, and records are only written under the owner's term. So of two
loggers that both believe to own a partition one is refused, and every line is stored once.
"""

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing

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
from gpuyard_logger.database import DamagedIndexError
from gpuyard_logger.shelf import Shelf

_AT_ONCE = 8


class Deposed(Exception):
    """Another logger owns the partition now, or might."""


class Catalogue:
    """Speaks for one reign over one partition."""

    def __init__(self, context: Context, partition: int, reign: Reign, shelf: Shelf) -> None:
        self.trouble = ""
        """Why nothing can be recorded now; empty if it can."""
        self._context = context
        self._partition = partition
        self._reign = reign
        self._shelf = shelf

    async def load(self) -> None:
        """Bring the index to what the bus says.

        Raises:
            Deposed: the partition has another owner.
            GpuyardError, OSError: bus or index can't be read.

        """
        seen: set[str] = set()
        replaced: set[str] = set()
        async with aclosing(self._records()) as records:
            async for some in records:
                seen.update(record.id for record in some)
                replaced.update(name for record in some for name in record.replaces)
                await self._shelf.write(self._mirror, some)
        for gone in self._shelf.index.marks(self._partition).keys() - (seen - replaced):
            self._shelf.index.remove(gone)
        for name in seen & replaced:
            await self._forget(name)

    async def add(self, segment: Segment) -> None:
        """Record a segment, and that others are replaced by it.

        Raises:
            Deposed: the partition has another owner.
            DamagedIndexError: it is recorded, and the index must be made anew.

        """
        subject = SEGMENT(partition=self._partition, segment=segment.id)
        # A segment moves to another holder, or loses rows, under the same name: so both are part of the id.
        await self.append(subject, segment, f"{segment.id}.{segment.holder}.{len(segment.rows)}")
        await self._insist(lambda: self._shelf.write(self._shelf.index.add, segment))
        for replaced in segment.replaces:
            await self._forget(replaced)

    async def remove(self, segment: str) -> None:
        """Forget a segment for good."""
        await self._insist(lambda: self._shelf.write(self._shelf.index.remove, segment))
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
        payload, append, fence = encode(message), self._context.bus.append, self._reign.fence
        await self._insist(lambda: append(subject, payload, msg_id=msg_id, expect=fence, ttl_s=ttl_s))

    async def _records(self) -> AsyncGenerator[list[Segment], None]:
        """All records, the oldest first, some at a time: together they may be too large for memory."""
        some: list[Segment] = []
        pattern = SEGMENT.some(partition=self._partition)
        async with self._context.bus.read(SEGMENTS_STREAM, pattern, start=From.LAST_PER_SUBJECT) as reader:
            while reader.backlog:
                message = await anext(reader)
                try:
                    some.append(decode(message.payload, Segment))
                except InvalidSpec as error:
                    await set_aside(self._context, message, error)
                if len(some) == _AT_ONCE:
                    yield some
                    some = []
        yield some

    def _mirror(self, records: Iterable[Segment]) -> None:
        """In the thread that writes. What the index has wrong is put right."""
        for record in records:
            if not self._shelf.index.agrees(record):
                self._shelf.index.add(record)

    async def _forget(self, segment: str) -> None:
        """Delete a record."""
        subject = SEGMENT(partition=self._partition, segment=segment)
        await self._insist(lambda: self._context.bus.trim(SEGMENTS_STREAM, subject=subject))

    async def _insist(self, act: Callable[[], Awaitable[object]]) -> None:
        """Do it until it is known to be done, as long as the partition is ours."""
        tries = 0
        while True:
            if not self._reign.holds:
                raise Deposed(f"the lease of partition {self._partition} is lost")
            try:
                await act()
            except Conflict as error:
                raise Deposed(f"partition {self._partition}: {error.message}") from error
            except DamagedIndexError:
                raise
            except (Unavailable, OSError) as error:
                tries += 1
                self._tell(error, tries)
                await self._context.clock.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311
            else:
                self.trouble = ""
                return

    def _tell(self, error: Exception, tries: int) -> None:
        self.trouble = f"what is stored can't be recorded: {error}"
        if tries == 1:
            self._context.log.warning("not recorded yet", partition=self._partition, error=str(error))
