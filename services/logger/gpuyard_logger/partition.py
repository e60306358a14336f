"""One partition while this logger owns it: its lines in, sealed and recorded.

The bus's stream is the write-ahead log. Lines are gathered in memory, sealed every few seconds, and only then
is the stream trimmed behind them. Whoever owns the partition next finds in the stream what was not sealed.
"""

import asyncio
import random

from gpuyard.bus.lease import Reign
from gpuyard.bus.port import Message
from gpuyard.contracts.errors import GpuyardError, InvalidSpec
from gpuyard.contracts.log import LogBatch
from gpuyard.contracts.segment import Segment
from gpuyard.contracts.subjects import LOG, LOGS_STREAM
from gpuyard.runtime.reject import set_aside
from gpuyard.runtime.retry import backoff_s
from gpuyard.runtime.service import Context
from gpuyard_logger.blobs import LoggerBlobs, Objects
from gpuyard_logger.catalogue import Catalogue, Deposed
from gpuyard_logger.config import LoggerConfig
from gpuyard_logger.core.follow_buffer import FollowBuffer
from gpuyard_logger.core.gather import Gather, Round
from gpuyard_logger.intake import parse_batch
from gpuyard_logger.keep import Keep
from gpuyard_logger.measure import Measures
from gpuyard_logger.numbers import NumberReader
from gpuyard_logger.sealing import write_round
from gpuyard_logger.shelf import Shelf
from gpuyard_logger.upkeep import Upkeep


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
        numbers: NumberReader,
        objects: Objects | None,
    ) -> None:
        self.number = number
        self.gather = Gather(shelf.index.position)
        self.catalogue = Catalogue(context, number, reign, shelf.index)
        self.keep = Keep(context, number, self.catalogue, shelf.keep_index)
        self.objects = objects
        self.blobs = LoggerBlobs(context.bus, shelf, objects)
        self.upkeep = Upkeep(
            context,
            number,
            shelf,
            catalogue=self.catalogue,
            keep=self.keep,
            blobs=self.blobs,
            readers_s=config.readers_s,
        )
        self.trouble = "reads what is recorded"
        """Why it does not work as it should; empty if it does."""
        self.hold = ""
        """Why nothing is taken in now; empty if it is. See `hold_back`."""
        self._context = context
        self._config = config
        self._shelf = shelf
        self._measures = measures
        self._numbers = numbers
        self._buffer = FollowBuffer(config.keep_bytes, config.keep_s)
        self._newest = ("", 0)
        """Subject and sequence of the newest message that is stored."""
        self._taken_subject = ""
        self._taken_bytes = 0
        self._some = asyncio.Event()
        """There is something to seal."""
        self._full = asyncio.Event()
        """There is so much that it must be sealed now."""
        self._room = asyncio.Event()
        self._room.set()
        self._admitted = asyncio.Event()
        self._admitted.set()

    async def run(self) -> None:
        """Own the partition.

        Raises:
            Deposed: another logger owns it now.

        """
        await self.catalogue.load()
        await self.keep.load()
        await self.upkeep.settle()
        self.upkeep.look()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_reading())
            tasks.create_task(self._keep_sealing())
            tasks.create_task(self._keep_trimming())
            tasks.create_task(self.upkeep.run())

    def hold_back(self, why: str) -> None:
        """Take in nothing more, for this reason; without one, go on. What is not read waits in the stream."""
        self.hold = why
        if why:
            self._admitted.clear()
        else:
            self._admitted.set()

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
                await self._admitted.wait()
                batch = await self._parsed(message)
                if batch is not None:
                    await self._numbers.learn(batch.job)
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
        if new is not None and (rows := self._numbers.rows(new)):
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
            self.upkeep.look()
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
            self.upkeep.remove_retired()
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
