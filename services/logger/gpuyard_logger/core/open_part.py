"""Output of one stream that is not sealed yet: full frames, compressed at once, and the chunks of the next.

It only lives in memory. The messages it came from stay in the bus's stream until it is sealed, so whoever
takes over after a crash gathers the same lines again.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuyard.contracts.log import LogBatch, LogChunk
from gpuyard_logger.core.frame import MARK_BYTES, RAW_BYTES, Frame, Packed, mark_of, pack, unpack
from gpuyard_logger.core.layout import Sealed, Stream

_PART_BYTES = 1024
_FRAME_BYTES = 512
_CHUNK_BYTES = 192
"""Memory that these take besides the text, about. Without it, millions of empty lines would weigh nothing."""


class Snapshot(NamedTuple):
    """An open part at one moment: full frames, and chunks numbered from `first_seq` on."""

    packed: tuple[Packed, ...]
    first_seq: int
    chunks: tuple[LogChunk, ...]

    def frames(self, from_seq: int) -> Iterator[Frame]:
        """From the frame with this line on."""
        for packed in self.packed:
            if packed.entry.next_seq > from_seq:
                yield unpack(*packed)
        if self.chunks:
            marks = [mark_of(chunk) for chunk in self.chunks]
            next_seq = self.first_seq + sum(mark.lines for mark in marks)
            yield Frame(self.first_seq, next_seq, marks, b"".join(chunk.data for chunk in self.chunks))


class OpenPart:
    """Grows by batches that continue where the stream stands; gaps are allowed, repeats are not."""

    def __init__(self, stream: Stream, next_seq: int) -> None:
        self.stream = stream
        self.next_seq = next_seq
        self.ended = False
        self.held_bytes = _PART_BYTES
        """Memory that it takes, about."""
        self._frames: list[Packed] = []
        self._chunks: list[LogChunk] = []
        self._raw_bytes = 0
        self._first_seq = next_seq

    def add(self, batch: LogBatch) -> None:
        if batch.first_seq != self.next_seq:
            self._close_frame()
            self._first_seq = batch.first_seq
        self._chunks.extend(batch.chunks)
        self._raw_bytes += sum(len(chunk.data) + MARK_BYTES for chunk in batch.chunks)
        self.held_bytes += _held_bytes(batch.chunks)
        self.next_seq = batch.next_seq
        self.ended = self.ended or batch.end
        if self._raw_bytes >= RAW_BYTES:
            self._close_frame()

    def seal(self, at_s: float) -> Sealed:
        """All of it, compressed. Changes nothing: it is still read, by another thread."""
        last = (pack(self._first_seq, self._chunks),) if self._chunks else ()
        return Sealed(self.stream, (*self._frames, *last), self.next_seq, self.ended, at_s)

    def snapshot(self) -> "Snapshot":
        """What is there now. It stays as it is while the part grows."""
        return Snapshot(tuple(self._frames), self._first_seq, tuple(self._chunks))

    def _close_frame(self) -> None:
        if not self._chunks:
            return
        packed = pack(self._first_seq, self._chunks)
        self.held_bytes += _FRAME_BYTES + len(packed.data) - _held_bytes(self._chunks)
        self._frames.append(packed)
        self._chunks = []
        self._raw_bytes = 0
        self._first_seq = packed.entry.next_seq


def _held_bytes(chunks: Sequence[LogChunk]) -> int:
    return sum(_CHUNK_BYTES + len(chunk.data) for chunk in chunks)
