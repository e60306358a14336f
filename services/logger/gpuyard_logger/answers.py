"""Answers questions about a partition's lines, sealed or not.

Questions are answered side by side, each by a thread. Searches have threads of their own and end their page
early: they keep nobody from the end of another job's output.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from msgspec.structs import replace

from gpuyard.bus.port import Message
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Failure, GpuyardError, Unavailable
from gpuyard.contracts.log import LogPage, LogQuery
from gpuyard.contracts.segment import LINES
from gpuyard.contracts.subjects import LOG_OWNER_QUERY
from gpuyard.linefilter import filter_of
from gpuyard.runtime.service import Context
from gpuyard_logger.core.frame import Frame
from gpuyard_logger.core.gather import View
from gpuyard_logger.core.layout import Stream
from gpuyard_logger.core.page import assemble
from gpuyard_logger.core.sequence import Position
from gpuyard_logger.keep import no_longer_kept
from gpuyard_logger.library import Blobs, Damage, Library, Times
from gpuyard_logger.partition import Partition
from gpuyard_logger.shelf import Shelf

_READERS = 4
_SEARCHERS = 2
_PAGE_S = 0.1
"""How long a page may take. A search goes on with the next; who waits meanwhile gets a turn between."""


class Answers:
    """Answers for a partition. A bad question gets a failure for an answer and changes nothing."""

    def __init__(self, context: Context, shelf: Shelf, blobs: Blobs, partition: Partition) -> None:
        self._context = context
        self._shelf = shelf
        self._blobs = blobs
        self._partition = partition
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="answer")
        self._searchers = ThreadPoolExecutor(_SEARCHERS, thread_name_prefix="search")
        self._seconds = context.metrics.histogram(
            "gpuyard_logger_query_seconds", "Time to answer a question about stored lines."
        )

    async def run(self) -> None:
        """Answer other loggers' questions until cancelled."""
        subject = LOG_OWNER_QUERY(partition=self._partition.number)
        try:
            async with self._context.bus.subscribe(subject) as questions, asyncio.TaskGroup() as tasks:
                async for question in questions:
                    tasks.create_task(reply(self._context, question, self.answer(question.payload)))
        finally:
            self._readers.shutdown(wait=False, cancel_futures=True)
            self._searchers.shutdown(wait=False, cancel_futures=True)

    async def answer(self, payload: bytes) -> bytes:
        """Answer an encoded LogQuery."""
        with self._seconds.time():
            try:
                query = decode(payload, LogQuery)
                # Before the index is asked: what is sealed meanwhile is then met twice, never missed.
                view = self._partition.gather.view(query.job)
                gone = self._partition.keep.dropped(query.job)
                loop = asyncio.get_running_loop()
                pool = self._searchers if query.grep else self._readers
                page = await loop.run_in_executor(pool, self._page, query, view)
                if gone is not None and not page.attempt:
                    raise no_longer_kept(gone)
                return encode(page)
            except GpuyardError as error:
                return encode(error.to_failure())
            except OSError as error:
                self._context.log.error("store can't be read", error=str(error))
                return encode(_unreadable(error))

    def _page(self, query: LogQuery, view: View) -> LogPage:
        """In a thread of a pool."""
        damage: list[Damage] = []
        is_late = _deadline(_PAGE_S)
        with closing(self._shelf.reading_index()) as index:
            library = Library(index, self._blobs, view.frames, damage.append)
            page = read_page(library, query, view, is_late)
        met_once = tuple(dict.fromkeys(damage))
        for one in met_once:
            self._context.log.error("stored lines are damaged", **one._asdict())
        return replace(page, damaged=tuple((d.stream.rank, d.first_seq, d.next_seq) for d in met_once))


async def reply(context: Context, question: Message, answering: Awaitable[bytes]) -> None:
    """Send an answer; one that gets lost is asked for again."""
    answer = await answering
    if not question.reply:
        return
    try:
        await context.bus.publish(question.reply, answer)
    except GpuyardError as error:
        context.log.warning("answer not sent", error=str(error))


def read_page(
    library: Library, query: LogQuery, view: View, is_late: Callable[[], bool] = lambda: False
) -> LogPage:
    """Answer a query from what is stored and what is open."""
    attempts = {*library.index.attempts(query.job), *(stream.attempt for stream in view.positions)}
    attempt = query.attempt or max(attempts, default=0)
    if attempt not in attempts:
        return LogPage(attempt=0, through_seq=view.through_seq)
    output = _Attempt(library, query.job, attempt, filter_of(query).overlaps)
    positions = _positions(library, view, query.job, attempt)
    return assemble(query, attempt, positions, output, through_seq=view.through_seq, is_late=is_late)


class _Attempt:
    """Output of one attempt in a library, as far as it is of the wanted times."""

    def __init__(self, library: Library, job: str, attempt: int, times: Times) -> None:
        self._library = library
        self._job = job
        self._attempt = attempt
        self._times = times

    def onward(self, rank: int, from_seq: int) -> Iterator[Frame]:
        return self._library.frames(Stream(self._job, self._attempt, rank), from_seq, self._times)

    def back(self, rank: int, before_seq: int) -> Iterator[Frame]:
        return self._library.frames_back(Stream(self._job, self._attempt, rank), before_seq, self._times)


def _positions(library: Library, view: View, job: str, attempt: int) -> dict[int, Position]:
    """How far each rank goes; what is open goes further than what is sealed."""
    newer = {stream.rank: at for stream, at in view.positions.items() if stream.attempt == attempt}
    return {**library.index.positions(job, attempt, LINES), **newer}


def _deadline(seconds: float) -> Callable[[], bool]:
    end_s = time.monotonic() + seconds
    return lambda: time.monotonic() >= end_s


def _unreadable(error: OSError) -> Failure:
    return Unavailable(
        f"the logger can't read its store: {error}", "Check the disk of the logger; then ask again."
    ).to_failure()
