"""A page of series: rows of the ranks one after the other, no more than are wanted at once."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from gpuyard.contracts.series import SeriesChunk, SeriesPage, SeriesQuery
from gpuyard_logger.core.frame import Frame
from gpuyard_logger.core.sequence import Position


class Piece(NamedTuple):
    """Rows that were printed at one moment, and the number of the row after them."""

    at_s: float
    rows: bytes
    next_row: int


Read = Callable[[int, int], Iterator[Piece]]
"""Stored rows of a rank from one on: `read(rank, from_row)`."""


def assemble(query: SeriesQuery, attempt: int, positions: Mapping[int, Position], read: Read) -> SeriesPage:
    """Answer a query about one attempt, given how many rows each of its ranks has."""
    chunks: list[SeriesChunk] = []
    cursor = dict(query.after)
    ranks = sorted(positions if query.ranks is None else positions.keys() & set(query.ranks))
    room = query.max_bytes
    for rank in ranks:
        end = positions[rank].next_seq
        cursor.setdefault(rank, 0 if query.tail is None else max(0, end - query.tail))
        for piece in read(rank, cursor[rank]):
            if room <= 0:
                return SeriesPage(attempt, tuple(chunks), tuple(sorted(cursor.items())), complete=False)
            chunks.append(SeriesChunk(rank, piece.at_s, piece.rows))
            cursor[rank] = piece.next_row
            room -= len(piece.rows)
    return SeriesPage(attempt, tuple(chunks), tuple(sorted(cursor.items())))


def pieces(frames: Iterable[Frame], from_row: int) -> Iterator[Piece]:
    """Rows from one on, each once; frames may begin before it, and overlap."""
    for frame in frames:
        row = frame.first_seq
        for chunk in frame.chunks():
            after = row + chunk.line_count
            if after > from_row:
                skipped = max(0, from_row - row)
                yield Piece(chunk.at_s, chunk.data.split(b"\n", skipped)[-1], after)
                from_row = after
            row = after
