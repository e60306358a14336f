"""Gets rounds onto the disk, however often that takes, and says how it goes."""

import random
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import NamedTuple

from opentelemetry.trace import Span

from gpuyard.contracts.log import LogBatch
from gpuyard.runtime.retry import backoff_s
from gpuyard.runtime.service import Context
from gpuyard.telemetry.traces import span
from gpuyard_logger.intake import Received
from gpuyard_logger.store import Stored
from gpuyard_logger.store_thread import StoreThread


class Place(NamedTuple):
    """A message of the stream by its sequence and subject."""

    seq: int
    subject: str


NOTHING = Place(0, "")


class Persist:
    """Stores rounds in the order of the stream. `through`: every message up to this one is stored."""

    def __init__(self, context: Context, store: StoreThread) -> None:
        self.through = NOTHING
        self._context = context
        self._store = store
        self._count = _Counters(context)

    async def store(self, received: Sequence[Received]) -> None:
        """Return once all of it is on disk. While the disk refuses, nothing moves on and nothing is lost."""
        with ExitStack() as spans:
            for one in received:
                if one.batch is not None and (one.batch.first_seq == 0 or one.batch.end):
                    spans.enter_context(_span(one, one.batch))
            stored = await self._until_stored([one.batch for one in received if one.batch is not None])
        self._count.add(stored)
        last = received[-1].message
        self.through = Place(last.seq, last.subject)

    async def _until_stored(self, batches: Sequence[LogBatch]) -> Stored:
        tries = 0
        while True:
            try:
                stored = await self._store.append(batches)
            except OSError as error:
                tries += 1
                self._alarm(error, tries)
                await self._context.clock.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311
            else:
                if tries:
                    self._context.log.info("store works again", tries=tries)
                    self._context.health.ready()
                return stored

    def _alarm(self, error: OSError, tries: int) -> None:
        self._count.errors.inc()
        self._context.health.not_ready(f"the store can't be written: {error}")
        if tries == 1:
            self._context.log.error(
                "store can't be written; lines wait in the stream", error=str(error), hint="Free disk space."
            )


class _Counters:
    """What a store does, as metrics."""

    def __init__(self, context: Context) -> None:
        counter = context.metrics.counter
        self.errors = counter("gpuyard_logger_store_errors_total", "Writes that the store refused.")
        self._lines = counter("gpuyard_logger_lines_total", "Lines stored.")
        self._bytes = counter("gpuyard_logger_bytes_total", "Bytes of output stored.")
        self._repeats = counter("gpuyard_logger_repeated_batches_total", "Batches that held nothing new.")
        self._missing = counter("gpuyard_logger_missing_lines_total", "Lines that their writer lost.")

    def add(self, stored: Stored) -> None:
        self._lines.inc(stored.lines)
        self._bytes.inc(stored.data_bytes)
        self._repeats.inc(stored.repeated_batches)
        self._missing.inc(stored.missing_lines)


def _span(one: Received, batch: LogBatch) -> AbstractContextManager[Span]:
    return span(
        "logger.persist",
        parent=one.message.headers,
        job=batch.job,
        attempt=batch.attempt,
        rank=batch.rank,
        next_seq=batch.next_seq,
    )
