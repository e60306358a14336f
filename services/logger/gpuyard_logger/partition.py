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
from gpuyard_logger.catalogue import Catalogue
from gpuyard_logger.config import LoggerConfig
from gpuyard_logger.core.gather import Gather, Round
from gpuyard_logger.database import DamagedIndexError
from gpuyard_logger.intake import parse_batch
from gpuyard_logger.keep import Keep
from gpuyard_logger.measure import Measures
from gpuyard_logger.numbers import NumberReader
from gpuyard_logger.patterns import PatternWatch
from gpuyard_logger.persist_spans import PersistSpans
from gpuyard_logger.sealing import write_round
from gpuyard_logger.shelf import Shelf
from gpuyard_logger.trimming import Trimmer
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
        watch: PatternWatch,
        objects: Objects | None,
    ) -> None:
        self.number = number
        self.gather = Gather(shelf.index.position)
        self.catalogue = Catalogue(context, number, reign, shelf)
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
        self.hold = ""
        """Why nothing is taken in now; empty if it is. See `hold_back`."""
        self._context = context
        self._config = config
        self._shelf = shelf
        self._measures = measures
        self._numbers = numbers
        self._watch = watch
        self._spans = PersistSpans()
        self._trimmer = Trimmer(context, config, number)
        self._reading_trouble = "what is recorded is being read"
        self._sealing_trouble = ""
        self._tries = 0
        """How often in a row the stream could not be read."""
        self._some = asyncio.Event()
        """There is something to seal."""
        self._full = asyncio.Event()
        """There is so much that it must be sealed now."""
        self._room = asyncio.Event()
        self._room.set()
        self._admitted = asyncio.Event()
        self._admitted.set()

    @property
    def trouble(self) -> str:
        """Why it does not work as it should; empty if it does."""
        return self._sealing_trouble or self.catalogue.trouble or self._reading_trouble or self.hold

    async def run(self) -> None:
        """Own the partition.

        Raises:
            Deposed: another logger owns it now.
            DamagedIndexError: the index must be made anew.
            GpuyardError, OSError: what is recorded can't be read.

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
        while True:
            try:
                await self._read()
            except DamagedIndexError:
                raise
            except (GpuyardError, OSError) as error:
                self._tries += 1
                self._reading_trouble = f"the stream can't be read: {error}"
                self._context.log.warning("reading the stream anew", partition=self.number, error=str(error))
            await self._context.clock.sleep(backoff_s(self._tries, chance=random.random()))  # noqa: S311

    async def _read(self) -> None:
        async with self._context.bus.read(LOGS_STREAM, LOG.some(partition=self.number)) as reader:
            self._reading_trouble = ""
            self._trimmer = Trimmer(self._context, self._config, self.number)
            self.gather.read_anew()
            async for message in reader:
                await self._room.wait()
                await self._admitted.wait()
                batch = await self._parsed(message)
                if batch is not None:
                    await self._numbers.learn(batch.job)
                    await self._watch.learn(batch.job)
                self._take(message, batch)
                self._tries = 0

    async def _parsed(self, message: Message) -> LogBatch | None:
        try:
            return parse_batch(message)
        except InvalidSpec as error:
            await set_aside(self._context, message, error)
            return None

    def _take(self, message: Message, batch: LogBatch | None) -> None:
        taken = self.gather.take(batch, message.seq, self._context.clock.monotonic())
        self._measures.taken(batch, taken)
        if taken.batch is not None:
            self._spans.take(message, taken.batch)
            if rows := self._numbers.rows(taken.batch):
                self.gather.note(taken.batch, rows)
            self._watch.take(taken.batch)
        self._trimmer.take(message)
        self._some.set()
        if self.gather.fresh_bytes >= self._config.open_bytes:
            self._full.set()
            self._room.clear()

    # Lines out to the disk

    async def _keep_sealing(self) -> None:
        while True:
            await self._some.wait()
            await self._until_due()
            await self._seal()

    async def _until_due(self) -> None:
        """Until the oldest line is old enough, or there is no room for more."""
        now_s = self._context.clock.monotonic()
        since_s = now_s if self.gather.fresh_since_s is None else self.gather.fresh_since_s
        due = asyncio.ensure_future(self._context.clock.sleep(since_s + self._config.seal_s - now_s))
        full = asyncio.ensure_future(self._full.wait())
        try:
            await asyncio.wait((due, full), return_when=asyncio.FIRST_COMPLETED)
        finally:
            due.cancel()
            full.cancel()

    async def _seal(self) -> None:
        """Store what is there. While the disk refuses, nothing moves on and nothing is lost."""
        trimmer, spans = self._trimmer, self._spans.begin()
        mark = trimmer.mark()
        self._some.clear()
        round_ = self.gather.begin()
        self._full.clear()
        self._room.set()
        await self._watch.settle()
        for segment in await self._until_written(round_):
            # If another logger owns the partition now, the file stays: whether its record was written may be
            # unknown. Who settles the files of this disk next will see.
            await self.catalogue.add(segment)
            self._measures.sealed(segment)
        self.gather.sealed()
        trimmer.stored(mark)
        self.upkeep.look()
        for span in spans:
            span.end()

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
                    self._sealing_trouble = ""
                return segments

    def _alarm(self, error: OSError, tries: int) -> None:
        self._measures.store_errors.inc()
        self._sealing_trouble = f"the store can't be written: {error}"
        if tries == 1:
            self._context.log.error(
                "store can't be written; lines wait in the stream", error=str(error), hint="Free disk space."
            )

    async def _keep_trimming(self) -> None:
        while True:
            await self._context.clock.sleep(self._config.trim_interval_s)
            self.upkeep.remove_retired()
            await self._trimmer.trim()
