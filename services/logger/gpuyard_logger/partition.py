"""One partition while this logger owns it: its lines in, sealed and recorded.

The bus's stream is the write-ahead log. Lines are gathered in memory, sealed every few seconds, and only then
is the stream trimmed behind them. Whoever owns the partition next finds in the stream what was not sealed.
"""

import asyncio
import random
from collections import deque
from collections.abc import Iterator
from contextlib import closing

from gpuyard.bus.lease import Reign
from gpuyard.bus.port import Message
from gpuyard.contracts.errors import GpuyardError, InvalidSpec
from gpuyard.contracts.log import LogBatch, partition_of
from gpuyard.contracts.segment import Row, Segment
from gpuyard.contracts.subjects import LOG, LOGS_STREAM
from gpuyard.runtime.reject import set_aside
from gpuyard.runtime.retry import backoff_s
from gpuyard.runtime.service import Context
from gpuyard_logger.catalogue import Catalogue, Deposed
from gpuyard_logger.config import LoggerConfig
from gpuyard_logger.core.follow_buffer import FollowBuffer
from gpuyard_logger.core.frame import DamagedError, Frame
from gpuyard_logger.core.gather import Gather, Round
from gpuyard_logger.core.layout import Stream
from gpuyard_logger.core.numbers import Numbers
from gpuyard_logger.intake import parse_batch
from gpuyard_logger.library import Damage, Library
from gpuyard_logger.measure import Measures
from gpuyard_logger.merger import merge_once
from gpuyard_logger.number_rules import NumberRules
from gpuyard_logger.sealing import write_round
from gpuyard_logger.shelf import Shelf

READERS_S = 60.0


class Partition:
    """Reads, seals and trims until cancelled or deposed."""

    def __init__(
        self,
        number: int,
        context: Context,
        config: LoggerConfig,
        shelf: Shelf,
        *,
        reign: Reign,
        measures: Measures,
    ) -> None:
        self.number = number
        self.gather = Gather(shelf.index.position)
        self.catalogue = Catalogue(context, number, reign, shelf.index)
        self.trouble = "reads what is recorded"
        """Why it does not work as it should; empty if it does."""
        self._context = context
        self._config = config
        self._shelf = shelf
        self._measures = measures
        self._numbers = Numbers()
        self._rules = NumberRules(context)
        self._buffer = FollowBuffer(config.keep_bytes, config.keep_s)
        self._newest = ("", 0)
        """Subject and sequence of the newest message that is stored."""
        self._taken_subject = ""
        self._taken_bytes = 0
        self._some = asyncio.Event()
        """There is something to seal."""
        self._full = asyncio.Event()
        """There is so much that it must be sealed now."""
        self._ripe = asyncio.Event()
        """There may be something to merge."""
        self._replaced: deque[tuple[float, str]] = deque()
        """Segments that others took the place of, and when: readers may still be in them."""
        self._room = asyncio.Event()
        self._room.set()

    async def run(self) -> None:
        """Own the partition.

        Raises:
            Deposed: another logger owns it now.

        """
        await self.catalogue.load()
        await self._adopt()
        self._ripe.set()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_reading())
            tasks.create_task(self._keep_sealing())
            tasks.create_task(self._keep_trimming())
            tasks.create_task(self._keep_merging())

    # Lines in

    async def _keep_reading(self) -> None:
        """Read the stream for ever; anew from its beginning if it broke."""
        tries = 0
        while True:
            try:
                await self._read()
            except GpuyardError as error:
                tries += 1
                self.trouble = f"the stream can't be read: {error}"
                self._context.log.warning("reading the stream anew", partition=self.number, error=str(error))
            await self._context.clock.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311

    async def _read(self) -> None:
        async with self._context.bus.read(LOGS_STREAM, LOG.some(partition=self.number)) as reader:
            self.trouble = ""
            async for message in reader:
                await self._room.wait()
                batch = await self._parsed(message)
                if batch is not None:
                    await self._rules.learn(batch.job)
                self._take(message, batch)

    async def _parsed(self, message: Message) -> LogBatch | None:
        try:
            return parse_batch(message)
        except InvalidSpec as error:
            await set_aside(self._context, message, error)
            return None

    def _take(self, message: Message, batch: LogBatch | None) -> None:
        taken = self.gather.take(batch, message.seq, self._context.clock.monotonic())
        self._measures.taken(batch, taken)
        self._find_numbers(taken.batch)
        self._taken_subject = message.subject
        self._taken_bytes += len(message.payload)
        self._some.set()
        if self.gather.open_bytes >= self._config.open_bytes:
            self._full.set()
            self._room.clear()

    def _find_numbers(self, new: LogBatch | None) -> None:
        if new is None:
            return
        own = self._rules.of(new.job)
        if rows := self._numbers.rows(new, own, self._context.clock.monotonic()):
            self.gather.note(new, rows)

    # Lines out to the disk

    async def _keep_sealing(self) -> None:
        while True:
            await self._some.wait()
            await self._until_due()
            newest, taken_bytes = (self._taken_subject, self.gather.through_seq), self._taken_bytes
            self._taken_bytes = 0
            self._some.clear()
            round_ = self.gather.begin()
            self._full.clear()
            self._room.set()
            await self._seal(round_)
            self.gather.sealed()
            self._newest = newest
            self._ripe.set()
            self._buffer.add(newest[1], taken_bytes, self._context.clock.monotonic())

    async def _until_due(self) -> None:
        """Until the oldest line is old enough, or there is no room for more."""
        since_s = self.gather.since_s
        if since_s is None:
            return
        due = asyncio.ensure_future(
            self._context.clock.sleep(since_s + self._config.seal_s - self._context.clock.monotonic())
        )
        full = asyncio.ensure_future(self._full.wait())
        try:
            await asyncio.wait((due, full), return_when=asyncio.FIRST_COMPLETED)
        finally:
            due.cancel()
            full.cancel()

    async def _seal(self, round_: Round) -> None:
        """Store a round. While the disk refuses, nothing moves on and nothing is lost."""
        for segment in await self._until_written(round_):
            try:
                await self.catalogue.add(segment)
            except Deposed:
                # The next owner finds these lines in the stream.
                self._shelf.folder.remove(segment.id)
                raise

    async def _until_written(self, round_: Round) -> list[Segment]:
        tries = 0
        while True:
            try:
                segments = await self._shelf.write(
                    write_round,
                    self._shelf.folder,
                    round_,
                    partition=self.number,
                    holder=self._shelf.logger,
                    at_s=self._context.clock.now(),
                )
            except OSError as error:
                tries += 1
                self._alarm(error, tries)
                await self._context.clock.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311
            else:
                if tries:
                    self._context.log.info("store works again", partition=self.number, tries=tries)
                    self.trouble = ""
                return segments

    def _alarm(self, error: OSError, tries: int) -> None:
        self._measures.store_errors.inc()
        self.trouble = f"the store can't be written: {error}"
        if tries == 1:
            self._context.log.error(
                "store can't be written; lines wait in the stream", error=str(error), hint="Free disk space."
            )

    # The stream behind them

    async def _keep_trimming(self) -> None:
        """Remove from the stream what is stored and no longer kept for followers."""
        while True:
            await self._context.clock.sleep(self._config.trim_interval_s)
            self._remove_replaced()
            before_seq = self._buffer.trim_before(self._context.clock.monotonic())
            if before_seq is None:
                continue
            try:
                if await self._is_stream_as_read():
                    await self._context.bus.trim(
                        LOGS_STREAM, subject=LOG.some(partition=self.number), before_seq=before_seq
                    )
            except GpuyardError as error:
                self._context.log.warning("stream not trimmed; the next time will do", error=str(error))

    async def _is_stream_as_read(self) -> bool:
        """Whether the stream holds what was read. One that lost data counts anew; nothing of it is stored."""
        subject, seq = self._newest
        newest = await self._context.bus.last(LOGS_STREAM, subject)
        return newest is not None and newest.seq >= seq

    # Few files

    async def _keep_merging(self) -> None:
        while True:
            await self._ripe.wait()
            self._ripe.clear()
            try:
                while segment := await asyncio.to_thread(self._merge_once):
                    await self.catalogue.add(segment)
                    now_s = self._context.clock.monotonic()
                    self._replaced.extend((now_s, name) for name in segment.replaces)
            except OSError as error:
                self._context.log.warning("segments not merged; the next time will do", error=str(error))

    def _merge_once(self) -> Segment | None:
        with closing(self._shelf.reading_index()) as index:
            library = Library(index, self._shelf, _nothing_open, self._tell_damage)
            return merge_once(self._shelf, library, self.number, self._context.clock.now())

    def _tell_damage(self, damage: Damage) -> None:
        self._context.log.error("stored lines are damaged", **damage._asdict())

    def _remove_replaced(self) -> None:
        until_s = self._context.clock.monotonic() - READERS_S
        while self._replaced and self._replaced[0][0] < until_s:
            self._shelf.folder.remove(self._replaced.popleft()[1])

    # Files that nobody knows

    async def _adopt(self) -> None:
        """Record segments of this disk that the bus does not know, or remove them.

        One was written just before a crash; or the bus lost its records. Lines that are stored elsewhere
        must not be stored twice: then the file goes.
        """
        folder, index = self._shelf.folder, self._shelf.index
        unknown = folder.names() - index.all_ids()
        for name in sorted(unknown, key=folder.size_bytes, reverse=True):
            try:
                rows = folder.rows(name)
            except (DamagedError, OSError) as error:
                self._context.log.error(
                    "segment can't be used", file=str(folder.path(name)), error=str(error)
                )
                continue
            if not rows or partition_of(rows[0].job) != self.number:
                continue
            if any(self._is_stored(row) for row in rows):
                folder.remove(name)
                continue
            now_s = self._context.clock.now()
            size_bytes = folder.size_bytes(name)
            await self.catalogue.add(Segment(name, self.number, self._shelf.logger, size_bytes, now_s, rows))

    def _is_stored(self, row: Row) -> bool:
        stored = self._shelf.index.position(Stream(row.job, row.attempt, row.rank, row.kind))
        return stored.next_seq > row.first_seq or (stored.ended and row.first_seq == row.next_seq)


def _nothing_open(_stream: Stream, _from_seq: int) -> Iterator[Frame]:
    return iter(())
