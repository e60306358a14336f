"""From open parts to a segment on the disk."""

from collections.abc import Iterable, Iterator
from uuid import uuid4

from gpuyard.contracts.segment import LINES, MAX_ROWS, Segment
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
    segments: list[Segment] = []
    try:
        segments.extend(
            write_segment(folder, taken, partition=partition, holder=holder, at_s=at_s)
            for taken in _shares(round_.seal(at_s))
        )
    except OSError:
        for segment in segments:
            folder.remove(segment.id)
        raise
    return segments


def _shares(parts: Iterable[Sealed]) -> Iterator[list[Sealed]]:
    """Parts for one segment after the other. A rank's series stay with the lines that they were found in:
    a crash between two records must not part them.
    """
    share: list[Sealed] = []
    for part in parts:
        if len(share) >= MAX_ROWS - 1 and part.stream.kind == LINES:
            yield share
            share = []
        share.append(part)
    if share:
        yield share
