"""Output of one stream that is not sealed yet: full frames, compressed at once, and the chunks of the next.

It only lives in memory. The messages it came from stay in the bus's stream until it is sealed, so whoever
takes over after a crash gathers the same lines again.
"""

from collections.abc import Iterator
from typing import NamedTuple

from gpuyard.contracts.log import LogBatch, LogChunk
from gpuyard_logger.core.frame import RAW_BYTES, Frame, Mark, Packed, pack, unpack
from gpuyard_logger.core.layout import Sealed, Stream


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
            marks = [
                Mark(chunk.stream, chunk.at_s, len(chunk.data), chunk.line_count) for chunk in self.chunks
            ]
            next_seq = self.first_seq + sum(mark.lines for mark in marks)
            yield Frame(self.first_seq, next_seq, marks, b"".join(chunk.data for chunk in self.chunks))


class OpenPart:
    """Grows by batches that continue where the stream stands; gaps are allowed, repeats are not."""

    def __init__(self, stream: Stream, next_seq: int) -> None:
        self.stream = stream
        self.next_seq = next_seq
        self.ended = False
        self._held_bytes = 0
        self._frames: list[Packed] = []
        self._chunks: list[LogChunk] = []
        self._chunk_bytes = 0
        self._first_seq = next_seq

    def add(self, batch: LogBatch) -> int:
        """Take a batch; returns by how many bytes it makes the part larger, or smaller, in memory."""
        before = self._held_bytes
        if batch.first_seq != self.next_seq:
            self._close_frame()
            self._first_seq = batch.first_seq
        for chunk in batch.chunks:
            self._chunks.append(chunk)
            self._chunk_bytes += len(chunk.data)
        self._held_bytes += sum(len(chunk.data) for chunk in batch.chunks)
        self.next_seq = batch.next_seq
        self.ended = self.ended or batch.end
        if self._chunk_bytes >= RAW_BYTES:
            self._close_frame()
        return self._held_bytes - before

    def seal(self, at_s: float) -> Sealed:
        """All of it, compressed. Nothing may be added after."""
        self._close_frame()
        return Sealed(self.stream, tuple(self._frames), self.next_seq, self.ended, at_s)

    def snapshot(self) -> "Snapshot":
        """What is there now. It stays as it is while the part grows."""
        return Snapshot(tuple(self._frames), self._first_seq, tuple(self._chunks))

    def _close_frame(self) -> None:
        if not self._chunks:
            return
        packed = pack(self._first_seq, self._chunks)
        self._held_bytes += len(packed.data) - self._chunk_bytes
        self._frames.append(packed)
        self._chunks = []
        self._chunk_bytes = 0
        self._first_seq = packed.entry.next_seq
