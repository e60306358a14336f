"""Answers questions about a partition's lines, sealed or not.

Questions are answered side by side, each by a thread of a small pool: a search that takes long keeps nobody
from the end of another job's output.
"""

import asyncio
from collections.abc import Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from msgspec.structs import replace

from gpuyard.bus.port import Message
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Failure, GpuyardError, Unavailable
from gpuyard.contracts.log import LogBatch, LogChunk, LogPage, LogQuery
from gpuyard.contracts.segment import LINES
from gpuyard.contracts.subjects import LOG_OWNER_QUERY
from gpuyard.runtime.service import Context
from gpuyard_logger.core.frame import Frame
from gpuyard_logger.core.gather import View
from gpuyard_logger.core.layout import Stream
from gpuyard_logger.core.page import assemble
from gpuyard_logger.core.sequence import Position, cut
from gpuyard_logger.library import Blobs, Damage, Library
from gpuyard_logger.partition import Partition
from gpuyard_logger.shelf import Shelf

_AT_ONCE = 4
_PIECE_BYTES = 16 * 1024


class Answers:
    """Answers for a partition. A bad question gets a failure for an answer and changes nothing."""

    def __init__(self, context: Context, shelf: Shelf, blobs: Blobs, partition: Partition) -> None:
        self._context = context
        self._shelf = shelf
        self._blobs = blobs
        self._partition = partition
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="answer")
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
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def answer(self, payload: bytes) -> bytes:
        """Answer an encoded LogQuery."""
        with self._seconds.time():
            try:
                query = decode(payload, LogQuery)
                # Before the index is asked: what is sealed meanwhile is then met twice, never missed.
                view = self._partition.gather.view(query.job)
                loop = asyncio.get_running_loop()
                return encode(await loop.run_in_executor(self._pool, self._page, query, view))
            except GpuyardError as error:
                return encode(error.to_failure())
            except OSError as error:
                self._context.log.error("store can't be read", error=str(error))
                return encode(_unreadable(error))

    def _page(self, query: LogQuery, view: View) -> LogPage:
        """In a thread of the pool."""
        damage: list[Damage] = []
        with closing(self._shelf.reading_index()) as index:
            library = Library(index, self._blobs, view.frames, damage.append)
            page = read_page(library, query, view)
        for one in damage:
            self._context.log.error("stored lines are damaged", **one._asdict())
        return replace(page, damaged=tuple((d.stream.rank, d.first_seq, d.next_seq) for d in damage))


async def reply(context: Context, question: Message, answering: Awaitable[bytes]) -> None:
    """Send an answer; one that gets lost is asked for again."""
    if not question.reply:
        return
    answer = await answering
    try:
        await context.bus.publish(question.reply, answer)
    except GpuyardError as error:
        context.log.warning("answer not sent", error=str(error))


def read_page(library: Library, query: LogQuery, view: View) -> LogPage:
    """Answer a query from what is stored and what is open."""
    attempts = {*library.index.attempts(query.job), *(stream.attempt for stream in view.positions)}
    attempt = query.attempt or max(attempts, default=0)
    if attempt not in attempts:
        return LogPage(attempt=0, through_seq=view.through_seq)

    def read(rank: int, from_seq: int) -> Iterator[LogBatch]:
        return batches(library, Stream(query.job, attempt, rank), from_seq)

    positions = _positions(library, view, query.job, attempt)
    return assemble(query, attempt, positions, read, view.through_seq)


def batches(library: Library, stream: Stream, from_seq: int) -> Iterator[LogBatch]:
    """Lines of a stream from one on, each once, in pieces small enough to be merged by time."""
    next_seq = from_seq
    for frame in library.frames(stream, from_seq):
        seq = frame.first_seq
        for chunks in _pieces(frame):
            after = seq + sum(chunk.line_count for chunk in chunks)
            piece = LogBatch(stream.job, stream.attempt, stream.rank, seq, after, tuple(chunks))
            seq = after
            if new := cut(piece, next_seq):
                next_seq = after
                yield new


def _pieces(frame: Frame) -> Iterator[list[LogChunk]]:
    piece: list[LogChunk] = []
    size_bytes = 0
    for chunk in frame.chunks():
        piece.append(chunk)
        size_bytes += len(chunk.data)
        if size_bytes >= _PIECE_BYTES:
            yield piece
            piece, size_bytes = [], 0
    if piece:
        yield piece


def _positions(library: Library, view: View, job: str, attempt: int) -> dict[int, Position]:
    """How far each rank goes; what is open goes further than what is sealed."""
    newer = {stream.rank: at for stream, at in view.positions.items() if stream.attempt == attempt}
    return {**library.index.positions(job, attempt, LINES), **newer}


def _unreadable(error: OSError) -> Failure:
    return Unavailable(
        f"the logger can't read its store: {error}", "Check the disk of the logger; then ask again."
    ).to_failure()
