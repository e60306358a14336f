"""What came of a partition since the last seal: cut by number, so that every line is gathered once."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from gpuyard.contracts.log import LogBatch, LogChunk
from gpuyard.contracts.segment import LINES, SERIES
from gpuyard_logger.core.frame import Frame
from gpuyard_logger.core.layout import Sealed, Stream
from gpuyard_logger.core.open_part import OpenPart, Snapshot
from gpuyard_logger.core.sequence import Position, advance

_REMEMBERED_STREAMS = 4096


class Taken(NamedTuple):
    """What of a batch was new."""

    batch: LogBatch | None
    missing_lines: int = 0
    """Numbers that were skipped: their writer lost them."""


class Round(NamedTuple):
    """Open parts that are sealed together; with them all messages up to `through_seq` are stored."""

    parts: Mapping[Stream, OpenPart]
    through_seq: int

    def seal(self, at_s: float) -> Iterator[Sealed]:
        """In an order that has a rank's series right behind its lines."""
        return (self.parts[stream].seal(at_s) for stream in sorted(self.parts))


class Gather:
    """Takes batches of a partition in the order of the bus's stream.

    Args:
        stored: How far a stream is sealed.

    """

    def __init__(self, stored: Callable[[Stream], Position]) -> None:
        self.through_seq = 0
        """Newest message taken."""
        self.fresh_bytes = 0
        """Memory that open parts take, about, without those that are being sealed."""
        self.fresh_since_s: float | None = None
        """When the oldest line came that is not being sealed."""
        self._sealing_bytes = 0
        self._sealing_since_s: float | None = None
        self._stored = stored
        self._positions: OrderedDict[Stream, Position] = OrderedDict()
        self._open: dict[Stream, OpenPart] = {}
        self._sealing: Round | None = None

    def take(self, batch: LogBatch | None, seq: int, now_s: float) -> Taken:
        """Take a message; None for one that could not be read."""
        self.through_seq = seq
        if batch is None:
            return Taken(None)
        stream = Stream(batch.job, batch.attempt, batch.rank)
        before = self.position(stream)
        part, after = advance(before, batch)
        if part is None:
            return Taken(None)
        self._positions[stream] = after
        self._add(stream, before.next_seq, part)
        if self.fresh_since_s is None:
            self.fresh_since_s = now_s
        return Taken(part, part.first_seq - before.next_seq)

    def note(self, batch: LogBatch, rows: Sequence[LogChunk]) -> None:
        """Take the series' rows that were found in a batch just taken; they are sealed with it."""
        stream = Stream(batch.job, batch.attempt, batch.rank, SERIES)
        first = self.position(stream).next_seq
        after = first + sum(chunk.line_count for chunk in rows)
        self._positions[stream] = Position(after)
        noted = LogBatch(batch.job, batch.attempt, batch.rank, first, after, tuple(rows))
        self._add(stream, first, noted)

    def position(self, stream: Stream) -> Position:
        """How far a stream was taken."""
        position = self._positions.pop(stream, None)
        if position is None:
            position = self._open_position(stream) or self._stored(stream)
        self._positions[stream] = position
        if len(self._positions) > _REMEMBERED_STREAMS:
            self._positions.popitem(last=False)
        return position

    def begin(self) -> Round:
        """Hand over what is there to be sealed. It stays readable until `sealed()`."""
        assert self._sealing is None, "one round after the other"
        self._sealing = Round(self._open, self.through_seq)
        self._open = {}
        self._sealing_bytes, self.fresh_bytes = self.fresh_bytes, 0
        self._sealing_since_s, self.fresh_since_s = self.fresh_since_s, None
        return self._sealing

    def sealed(self) -> None:
        """The round is stored."""
        self._sealing = None
        self._sealing_bytes = 0
        self._sealing_since_s = None

    @property
    def open_bytes(self) -> int:
        """Memory that all open parts take, about."""
        return self.fresh_bytes + self._sealing_bytes

    @property
    def since_s(self) -> float | None:
        """When the oldest line came that is not sealed."""
        return self.fresh_since_s if self._sealing_since_s is None else self._sealing_since_s

    def read_anew(self) -> None:
        """The stream is read from its beginning; it may count anew."""
        self.through_seq = 0

    def view(self, job: str, kind: int = LINES) -> "View":
        """What of this job is here now. It stays as it is while more is taken."""
        rounds = [self._sealing.parts if self._sealing else {}, self._open]
        streams = {
            stream for parts in rounds for stream in parts if stream.job == job and stream.kind == kind
        }
        return View(
            {
                stream: tuple(parts[stream].snapshot() for parts in rounds if stream in parts)
                for stream in streams
            },
            {stream: self.position(stream) for stream in streams},
            self.through_seq,
        )

    def _add(self, stream: Stream, next_seq: int, batch: LogBatch) -> None:
        part = self._open.get(stream)
        held_bytes = part.held_bytes if part else 0
        if part is None:
            part = self._open[stream] = OpenPart(stream, next_seq)
        part.add(batch)
        self.fresh_bytes += part.held_bytes - held_bytes

    def _open_position(self, stream: Stream) -> Position | None:
        rounds = (self._open, self._sealing.parts if self._sealing else {})
        part = next((parts[stream] for parts in rounds if stream in parts), None)
        return None if part is None else Position(part.next_seq, part.ended)


class View(NamedTuple):
    """Lines of a job that are not sealed, at one moment; how far its streams go, and the bus's stream."""

    parts: Mapping[Stream, tuple[Snapshot, ...]]
    positions: Mapping[Stream, Position]
    through_seq: int

    def frames(self, stream: Stream, from_seq: int) -> Iterator[Frame]:
        return chain.from_iterable(part.frames(from_seq) for part in self.parts.get(stream, ()))
