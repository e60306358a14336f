"""A job's lines from the first to the newest: history from the logger, then live from the stream.

The logger trims the stream only behind what it has stored, so every line is in at least one of the two. A
jump in a rank's numbers means that the lines between are to be had from the logger; the rank waits for them,
the others go on.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from typing import Any

from msgspec.structs import replace

from gpuyard.bus.port import Bus, Message, Reader
from gpuyard.client.join import Join
from gpuyard.client.pages import ask
from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import Conflict, InvalidSpec, Unavailable
from gpuyard.contracts.log import LogBatch, LogLine, LogPage, LogQuery
from gpuyard.contracts.subjects import LOG, LOGS_STREAM
from gpuyard.linefilter import EVERYTHING, Filter

ANSWER_TIMEOUT_S = 5.0
QUIET_S = 2.0
PATIENCE_TRIES = 6

Notice = Callable[[str], None]
Groups = AsyncGenerator[list[LogLine], None]


def _say_nothing(_text: str) -> None:
    pass


async def follow(
    bus: Bus,
    job: str,
    *,
    attempt: int | None = None,
    ranks: Collection[int] | None = None,
    tail: int | None = None,
    live: bool = True,
    expected_ranks: int | None = None,
    wanted: Filter = EVERYTHING,
    notice: Notice = _say_nothing,
) -> AsyncGenerator[LogLine, None]:
    """Give a job's lines, each once, those of a rank in their order.

    Args:
        bus: where the stream and the logger are.
        job: its id.
        attempt: by default the newest that is stored, else the first that shows.
        ranks: by default all.
        tail: only the last so many stored lines of each rank that are wanted, then what follows.
        live: stay until every expected rank has ended; else stop after what is there now.
        expected_ranks: how many ranks the job has; without it (and without `ranks`) live never ends.
        wanted: which lines to give.
        notice: is told in a sentence that no logger answers, or that lines are lost.

    Raises:
        InvalidSpec: what lines should hold is no regular expression.
        Unavailable: not live, and no logger answers for some seconds. Live, it is waited for.

    """
    follower = _Follower(
        bus, job, Join(attempt, ranks, tail, expected_ranks, wanted), live=live, notice=notice
    )
    async with aclosing(follower.groups()) as groups:
        async for group in groups:
            for line in group:
                yield line


def printed(bus: Bus, job: str, attempt: int, *, expected_ranks: int, notice: Notice) -> Groups:
    """Give all lines of an attempt so far, many at a time; else as `follow`."""
    join = Join(attempt, expected_ranks=expected_ranks)
    return _Follower(bus, job, join, live=False, notice=notice).groups()


class _Follower:
    """Goes back and forth between logger and stream as the join demands."""

    def __init__(self, bus: Bus, job: str, join: Join, *, live: bool, notice: Notice) -> None:
        self._bus = bus
        self._job = job
        self._join = join
        self._live = live
        self._notice = notice
        self._is_alone = False
        """No logger answered lately."""
        self._has_gap = False
        """A rank waits for lines from the logger."""
        self._stream_start = 1

    async def groups(self) -> Groups:
        """Lines that were at hand together."""
        while True:
            self._has_gap = False
            self._stream_start = 1
            async with aclosing(self._history()) as groups:
                async for group in groups:
                    yield group
            if self._join.is_done:
                return
            async with aclosing(self._stream()) as groups:
                async for group in groups:
                    yield group
            if self._join.is_done or not (self._live or self._has_gap):
                return

    async def _history(self) -> Groups:
        """Stored lines from where the join stands to their end, as far as a logger answers."""
        while page := await self._page():
            yield self._join.take_page(page)
            self._tell_losses()
            if page.complete and not self._join.ask_all():
                self._stream_start = page.through_seq + 1
                return

    async def _page(self) -> LogPage | None:
        """The next page; None if no logger answers."""
        tries = 0
        while True:
            try:
                return await self._ask(self._join.query(self._job))
            except Unavailable:
                tries += 1
                if self._live:
                    self._go_alone()
                    return None
                if tries == PATIENCE_TRIES:
                    raise
                await _pause(tries)

    async def _stream(self) -> Groups:
        """Lines from the stream, until there is nothing to wait for or the logger can give missing ones.

        Lines that were trimmed before they were read here were stored, and the logger has come past the
        place where this reading began: then history is asked again, and reading goes on behind it. If
        nothing came after those lines, silence is the only sign of them.
        """
        missing = self._when_stored(0) if self._is_alone else None
        try:
            async with self._bus.read(LOGS_STREAM, *self._subjects(), start=self._stream_start) as reader:
                while not self._join.is_done and (self._live or reader.backlog or missing):
                    message = await _next(reader, missing)
                    if message is None:
                        self._has_gap = _is_done(missing) or await self._is_behind()
                        if self._has_gap:
                            return
                        continue
                    lines = self._take(message)
                    if lines is None:
                        self._has_gap = True
                        missing = missing or self._when_stored(self._stream_start)
                    elif lines:
                        yield lines
        except (Unavailable, Conflict):
            if not self._live:
                raise
            await _pause(tries=3)
        finally:
            await _cancel(missing)

    def _take(self, message: Message) -> list[LogLine] | None:
        try:
            batch = decode(message.payload, LogBatch)
        except InvalidSpec:
            return []  # the logger sets it aside
        if sum(chunk.line_count for chunk in batch.chunks) != batch.next_seq - batch.first_seq:
            return []  # the same
        if self._is_alone:
            self._join.begin_at(batch)
        return self._join.take_batch(batch)

    def _when_stored(self, seq: int) -> asyncio.Task[None]:
        """Done once a logger answers that has stored the stream up to `seq`."""

        async def reached() -> None:
            tries = 0
            while not await self._has_stored(seq):
                tries += 1
                if tries == PATIENCE_TRIES and not self._live:
                    raise Unavailable("the logger has not stored all lines yet", "Ask again in a while.")
                await _pause(tries)

        return asyncio.create_task(reached())

    async def _has_stored(self, seq: int) -> bool:
        try:
            page = await self._ask(LogQuery(self._job, self._join.attempt, ranks=()))
        except Unavailable:
            return False
        return page.through_seq >= seq

    async def _is_behind(self) -> bool:
        """Whether a logger has what was not given yet."""
        try:
            page = await self._ask(replace(self._join.query(self._job), max_bytes=1))
        except Unavailable:
            return False
        return self._join.lacks(page)

    async def _ask(self, query: LogQuery) -> LogPage:
        page = await ask(self._bus, query, timeout_s=ANSWER_TIMEOUT_S)
        self._is_alone = False
        return page

    def _subjects(self) -> list[str]:
        known = {"job": self._job} | ({"attempt": self._join.attempt} if self._join.attempt else {})
        if self._join.ranks is None:
            return [LOG.some(**known)]
        return [LOG.some(**known, rank=rank) for rank in sorted(self._join.ranks)]

    def _go_alone(self) -> None:
        if not self._is_alone:
            self._notice("no logger answers; what is stored already follows when one is back")
        self._is_alone = True

    def _tell_losses(self) -> None:
        for loss in self._join.losses:
            count = loss.next_seq - loss.first_seq
            lines, are = ("line", "is") if count == 1 else ("lines", "are")
            self._notice(f"rank {loss.rank}: {count} {lines} before line {loss.next_seq} {are} lost")
        self._join.losses.clear()


async def _next(reader: Reader, missing: asyncio.Task[None] | None) -> Message | None:
    """The next message; None if it is quiet, or as soon as what is missing can be had."""
    coming = asyncio.ensure_future(anext(reader))
    try:
        awaited = {coming, missing} if missing else {coming}
        await asyncio.wait(awaited, timeout=QUIET_S, return_when=asyncio.FIRST_COMPLETED)
        return None if _is_done(missing) or not coming.done() else coming.result()
    finally:
        await _cancel(coming)


def _is_done(missing: asyncio.Task[None] | None) -> bool:
    """Raises what ended the waiting, if that is why it is done."""
    if missing is None or not missing.done():
        return False
    missing.result()
    return True


async def _cancel(task: asyncio.Future[Any] | None) -> None:
    """Cancel and wait until it is over, so that nothing it uses is closed under it."""
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _pause(tries: int) -> None:
    await asyncio.sleep(min(2.0, 0.05 * 2.0**tries))
