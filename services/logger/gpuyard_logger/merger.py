"""Makes one segment of many small ones, so that reading a job does not open thousands of files."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from gpuyard.contracts.segment import Segment
from gpuyard_logger.core.frame import Packed
from gpuyard_logger.core.layout import Sealed, Stream
from gpuyard_logger.core.merge import joined, to_merge, unbroken
from gpuyard_logger.index import Located
from gpuyard_logger.library import Library
from gpuyard_logger.sealing import write_segment
from gpuyard_logger.shelf import Shelf


def merge_once(shelf: Shelf, library: Library, partition: int, at_s: float) -> Segment | None:
    """Write the segment that takes the place of small ones; None if there is nothing to merge."""
    chosen = tuple(size.segment for size in to_merge(library.index.sizes(partition, shelf.logger)))
    return rewrite(shelf, library, partition, chosen, at_s) if chosen else None


def rewrite(shelf: Shelf, library: Library, partition: int, chosen: tuple[str, ...], at_s: float) -> Segment:
    """Write a segment that takes the place of these, with what rows still speak of.

    In a thread that reads. The parts are read as they are written, so that memory holds one at a time.

    Raises:
        DamagedError: a segment is damaged; it must stay as it is, so that the damage can be told.
        OSError: the disk refuses, or a segment can't be had.

    """
    parts = _parts(library, library.index.parts_of(chosen), at_s)
    return write_segment(
        shelf.folder, parts, partition=partition, holder=shelf.logger, at_s=at_s, replaces=chosen
    )


def _parts(library: Library, located: Sequence[Located], at_s: float) -> Iterator[Sealed]:
    for stream, parts in groupby(located, key=_stream_of):
        for group in unbroken(parts, lambda part: part.row):
            frames = joined(_packed(library, group))
            next_seq = max(part.row.next_seq for part in group)
            yield Sealed(stream, frames, next_seq, any(part.row.ended for part in group), at_s)


def _packed(library: Library, parts: Sequence[Located]) -> Iterator[Packed]:
    for part in parts:
        yield from library.packed(part)


def _stream_of(part: Located) -> Stream:
    row = part.row
    return Stream(row.job, row.attempt, row.rank, row.kind)
