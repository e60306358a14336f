"""From open parts to a segment on the disk."""

from collections.abc import Iterable, Iterator
from itertools import islice
from uuid import uuid4

from gpuyard.contracts.segment import MAX_ROWS, Segment
from gpuyard_logger.core.gather import Round
from gpuyard_logger.core.layout import Layout, Sealed
from gpuyard_logger.folder import Folder


def write_segment(
    folder: Folder,
    parts: Iterable[Sealed],
    *,
    partition: int,
    holder: str,
    at_s: float,
    replaces: tuple[str, ...] = (),
) -> Segment:
    """Write a segment and wait for the disk. It counts once its record is on the bus.

    Raises:
        OSError: the disk refuses; nothing is left of it.

    """
    name = uuid4().hex
    layout = Layout()
    folder.write(name, _all(layout, parts))
    return Segment(name, partition, holder, layout.size_bytes, at_s, tuple(layout.rows), replaces)


def _all(layout: Layout, parts: Iterable[Sealed]) -> Iterator[bytes]:
    yield from layout.pieces(parts)
    yield layout.close()


def write_round(folder: Folder, round_: Round, *, partition: int, holder: str, at_s: float) -> list[Segment]:
    """Write what was gathered, no more parts to a segment than its record has room for."""
    parts = round_.seal(at_s)
    segments: list[Segment] = []
    try:
        while taken := list(islice(parts, MAX_ROWS)):
            segments.append(write_segment(folder, taken, partition=partition, holder=holder, at_s=at_s))
    except OSError:
        for segment in segments:
            folder.remove(segment.id)
        raise
    return segments
