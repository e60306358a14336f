"""Answers questions about the series of a partition's jobs, sealed or not."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import GpuyardError, Unavailable
from gpuyard.contracts.segment import SERIES
from gpuyard.contracts.series import SeriesPage, SeriesQuery
from gpuyard.contracts.subjects import SERIES_QUERY
from gpuyard.runtime.service import Context
from gpuyard_logger.answers import reply
from gpuyard_logger.core.gather import Gather, View
from gpuyard_logger.core.layout import Stream
from gpuyard_logger.core.series import Piece, assemble, pieces
from gpuyard_logger.library import Blobs, Damage, Library
from gpuyard_logger.shelf import Shelf


class SeriesAnswers:
    """Answers for a partition, one question after the other: pages are small."""

    def __init__(self, context: Context, shelf: Shelf, blobs: Blobs, number: int, gather: Gather) -> None:
        self._context = context
        self._shelf = shelf
        self._blobs = blobs
        self._number = number
        self._gather = gather
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="series")

    async def run(self) -> None:
        """Answer until cancelled."""
        subject = SERIES_QUERY(partition=self._number)
        try:
            async with self._context.bus.subscribe(subject) as questions, asyncio.TaskGroup() as tasks:
                async for question in questions:
                    tasks.create_task(reply(self._context, question, self._answer(question.payload)))
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _answer(self, payload: bytes) -> bytes:
        try:
            query = decode(payload, SeriesQuery)
            # Before the index is asked: what is sealed meanwhile is then met twice, never missed.
            view = self._gather.view(query.job, SERIES)
            loop = asyncio.get_running_loop()
            return encode(await loop.run_in_executor(self._pool, self._page, query, view))
        except GpuyardError as error:
            return encode(error.to_failure())
        except OSError as error:
            self._context.log.error("store can't be read", error=str(error))
            unreadable = Unavailable(
                f"the logger can't read its store: {error}", "Check its disk; then ask again."
            )
            return encode(unreadable.to_failure())

    def _page(self, query: SeriesQuery, view: View) -> SeriesPage:
        """In the thread."""
        with closing(self._shelf.reading_index()) as index:
            return read_page(Library(index, self._blobs, view.frames, self._tell), query, view)

    def _tell(self, damage: Damage) -> None:
        self._context.log.error("stored series are damaged", **damage._asdict())


def read_page(library: Library, query: SeriesQuery, view: View) -> SeriesPage:
    """Answer a query from what is stored and what is open."""
    attempts = {*library.index.attempts(query.job), *(stream.attempt for stream in view.positions)}
    attempt = query.attempt or max(attempts, default=0)
    if attempt not in attempts:
        return SeriesPage(attempt=0)

    def read(rank: int, from_row: int) -> Iterator[Piece]:
        return pieces(library.frames(Stream(query.job, attempt, rank, SERIES), from_row), from_row)

    newer = {stream.rank: at for stream, at in view.positions.items() if stream.attempt == attempt}
    positions = {**library.index.positions(query.job, attempt, SERIES), **newer}
    return assemble(query, attempt, positions, read)
