"""Makes one segment of many small ones, so that reading a job does not open thousands of files."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from gpuyard.contracts.segment import Segment
from gpuyard_logger.core.frame import DamagedError, Packed
from gpuyard_logger.core.layout import Sealed, Stream
from gpuyard_logger.core.merge import joined, to_merge, unbroken
from gpuyard_logger.index import Located
from gpuyard_logger.library import Library
from gpuyard_logger.sealing import write_segment
from gpuyard_logger.shelf import Shelf


class UnreadableError(OSError):
    """A segment can't be read, or not be trusted."""

    def __init__(self, segment: str, why: Exception) -> None:
        super().__init__(f"segment {segment}: {why}")
        self.segment = segment


def merge_once(
    shelf: Shelf, library: Library, partition: int, at_s: float, unfit: set[str]
) -> Segment | None:
    """Write the segment that takes the place of small ones; None if there is nothing to merge.

    Args:
        shelf: Where it is written.
        library: What is stored.
        partition: Whose segments.
        at_s: Now.
        unfit: Segments that stay as they are. Those that can't be read are added: none holds up the others.

    Raises:
        OSError: the disk refuses.

    """
    sizes = library.index.sizes(partition, shelf.logger)
    while chosen := tuple(size.segment for size in to_merge(s for s in sizes if s.segment not in unfit)):
        try:
            return rewrite(shelf, library, partition, chosen, at_s)
        except UnreadableError as error:
            unfit.add(error.segment)
    return None


def rewrite(shelf: Shelf, library: Library, partition: int, chosen: tuple[str, ...], at_s: float) -> Segment:
    """Write a segment that takes the place of these, with what rows still speak of.

    In a thread that reads. The parts are read as they are written, so that memory holds a frame at a time.

    Raises:
        UnreadableError: one of them must stay as it is, so that the damage can be told.
        OSError: the disk refuses.

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
        try:
            yield from library.packed(part)
        except (DamagedError, OSError) as error:
            raise UnreadableError(part.segment, error) from error


def _stream_of(part: Located) -> Stream:
    row = part.row
    return Stream(row.job, row.attempt, row.rank, row.kind)
