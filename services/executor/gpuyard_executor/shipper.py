"""Brings one rank's output to the bus: every byte once, in order, numbered, however often anything is killed.

Secrets are hidden here, before anything is kept elsewhere: output on the bus is stored output.

Before a batch is sent, the positions before and after it go to disk; the batch itself carries its position.
So after a crash the same batch is sent again under the same message id, or not at all if it is on the bus.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from gpuyard.contracts.log import LogBatch, LogChunk
from gpuyard_executor.core.batching import MAX_BATCH_BYTES, Batcher, Position, covers, rebuild
from gpuyard_executor.core.rank import RankKey
from gpuyard_executor.core.redaction import Redactor
from gpuyard_executor.engine import Engine, OutputChunk
from gpuyard_executor.log_wire import LogWire
from gpuyard_executor.progress import Progress, ProgressFile

LINGER_S = 0.02
_TRICKLE_BYTES = MAX_BATCH_BYTES // 2
_TRIM_EVERY_BYTES = 4 * 1024 * 1024
_FOREVER = float("inf")


class Shipper:
    """`engine` is None for a rank that was never prepared: only its end is told."""

    def __init__(
        self, key: RankKey, engine: Engine | None, file: ProgressFile, wire: LogWire, redactor: Redactor
    ) -> None:
        self._key = key
        self._redactor = redactor
        self._engine = engine
        self._file = file
        self._wire = wire
        self._trimmed = 0

    async def run(self, *, is_resumed: bool) -> None:
        """Return when the end of the output is on the bus."""
        position = await self._resume() if is_resumed else Position()
        if position is not None:
            position = await self._ship(position)
            await self._wire.send(self._batch(position, position, is_end=True), position)

    async def _ship(self, position: Position) -> Position:
        """Send all output from a position on; returns the position at its end."""
        batcher = Batcher(position, self._redactor.parts_secret)
        async with _Pages(self._output(position.offset)) as pages:
            while True:
                chunks = await pages.next(batcher.patience_s(time.monotonic()))
                if chunks is None:
                    return await self._send_ready(batcher, position, _FOREVER)
                for chunk in chunks:
                    batcher.add(chunk, time.monotonic())
                began_s = time.monotonic()
                before, position = position, await self._send_ready(batcher, position, began_s)
                batcher.forgive(time.monotonic() - began_s)
                if before != position and position.offset - before.offset < _TRICKLE_BYTES:
                    await asyncio.sleep(LINGER_S)  # let some more lines come together

    def _output(self, offset: int) -> AsyncGenerator[Sequence[OutputChunk], None]:
        return self._engine.output(self._key, offset) if self._engine else _no_output()

    async def _send_ready(self, batcher: Batcher, position: Position, now_s: float) -> Position:
        while cut := batcher.cut(now_s):
            chunks, inside_key = self._redactor.redact(cut.chunks, position.inside_key)
            after = cut.after._replace(inside_key=inside_key)
            await self._send(position, after, chunks)
            position = after
            await self._trim(position)
        return position

    async def _trim(self, position: Position) -> None:
        if self._engine and position.offset - self._trimmed >= _TRIM_EVERY_BYTES:
            self._trimmed = position.offset
            await self._engine.remove(self._key, output_before=position.offset)

    # -- batches -------------------------------------------------------------------------------------------

    async def _send(self, before: Position, after: Position, chunks: tuple[LogChunk, ...]) -> None:
        await self._save(Progress(before, after))
        await self._wire.send(self._batch(before, after, chunks), after)

    def _batch(
        self, before: Position, after: Position, chunks: tuple[LogChunk, ...] = (), *, is_end: bool = False
    ) -> LogBatch:
        return LogBatch(*self._key, before.next_seq, after.next_seq, chunks, after.offset, is_end)

    async def _save(self, progress: Progress) -> None:
        tries = 0
        while True:
            try:
                self._file.write(progress)
            except OSError as error:
                tries += 1
                await self._wire.pause(tries, error)
            else:
                return

    # -- after a restart -----------------------------------------------------------------------------------

    async def _resume(self) -> Position | None:
        """Where to go on, once the batch that was under way is on the bus; None: all is there."""
        progress = self._file.read()
        before, after = progress.before, progress.after
        position, is_over = await self._wire.newest(self._batch(before, after))
        if is_over:
            return None
        if position.next_seq >= after.next_seq:
            return position
        await self._send(before, after, await self._again(before, after))
        return after

    async def _again(self, before: Position, after: Position) -> tuple[LogChunk, ...]:
        chunks: list[OutputChunk] = []
        async with aclosing(self._output(before.offset)) as pages:
            async for page in pages:
                chunks += page
                if covers(after, chunks):
                    break
        again = rebuild(before, after, chunks, self._redactor.parts_secret)
        return self._redactor.redact(again, before.inside_key).chunks


class _Pages:
    """Pages of output, one read ahead, so that waiting for the next can be given up and taken up again."""

    def __init__(self, pages: AsyncGenerator[Sequence[OutputChunk], None]) -> None:
        self._pages = pages

    async def __aenter__(self) -> "_Pages":
        self._ahead = asyncio.ensure_future(self._read())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._ahead.cancel()
        await asyncio.wait((self._ahead,))
        await self._pages.aclose()

    async def next(self, timeout_s: float | None) -> Sequence[OutputChunk] | None:
        """The next page; an empty one after the time-out; None at the end."""
        await asyncio.wait((self._ahead,), timeout=timeout_s)
        if not self._ahead.done():
            return ()
        page = self._ahead.result()
        if page is not None:
            self._ahead = asyncio.ensure_future(self._read())
        return page

    async def _read(self) -> Sequence[OutputChunk] | None:
        return await anext(self._pages, None)


async def _no_output() -> AsyncGenerator[Sequence[OutputChunk], None]:
    nothing: tuple[Sequence[OutputChunk], ...] = ()
    for page in nothing:
        yield page
