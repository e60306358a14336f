"""One rank's file: frames are appended at the end, and read from any line on.

Appending has two steps, so that a round over many files writes first and waits for the disk after. What is
staged counts only once it is committed; until then it is a torn end, which the next staging cuts off.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuyard.contracts.log import LogBatch
from gpuyard_logger.core.frame import HEADER_BYTES, pack, parse_body
from gpuyard_logger.core.recovery import survey, walk
from gpuyard_logger.core.sequence import Position, advance, cut
from gpuyard_logger.handles import Handles
from gpuyard_logger.store import Stored


class LogFile:
    """The stored output of one rank. Opening it reads the headers and finds a torn end."""

    def __init__(self, path: Path, handles: Handles) -> None:
        self._path = path
        self._handles = handles
        size_bytes = os.fstat(handles.get(path)).st_size
        found = survey(self._read_at, size_bytes)
        self.position: Position = found.position
        self.holes = found.holes
        self._index = found.marks
        self._size_bytes = found.end_bytes
        self._is_torn = size_bytes > found.end_bytes
        # A killed process may have written more than it waited for; from here on it counts as stored.
        os.fdatasync(handles.get(path))
        self._staged = _Staged(found.position, found.end_bytes)

    def stage(self, batches: Sequence[LogBatch]) -> Stored:
        """Write what is new of the batches, without waiting for the disk."""
        self._staged = staged = _Staged(self.position, self._size_bytes)
        stored = sum(map(staged.add, batches), Stored())
        if staged.frames:
            self._cut_torn_end()
            self._is_torn = True
            _write(self._handles.get(self._path), b"".join(staged.frames), self._size_bytes)
        return stored

    def commit(self) -> None:
        """Wait until what was staged is on disk; from now on it counts."""
        staged = self._staged
        if not staged.frames:
            return
        os.fdatasync(self._handles.get(self._path))
        for first_seq, offset in staged.marks:
            self._index.add(first_seq, offset)
        self.position, self._size_bytes, self._is_torn = staged.position, staged.end_bytes, False
        self._staged = _Staged(self.position, self._size_bytes)

    def read(self, from_seq: int) -> Iterator[LogBatch]:
        """Batches from a line on; damaged ones are missing."""
        start = self._index.find(from_seq)
        for offset, header in walk(self._read_at, start, self._size_bytes):
            if header.next_seq < from_seq:
                continue
            batch = parse_body(header, self._read_at(offset + HEADER_BYTES, header.body_bytes))
            part = batch and cut(batch, from_seq)
            if part is not None:
                yield part

    def _read_at(self, offset: int, count: int) -> bytes:
        return os.pread(self._handles.get(self._path), count, offset)

    def _cut_torn_end(self) -> None:
        if self._is_torn:
            os.ftruncate(self._handles.get(self._path), self._size_bytes)


class _Staged:
    """Frames that are to follow what is on disk."""

    def __init__(self, position: Position, durable_bytes: int) -> None:
        self.position = position
        self.end_bytes = durable_bytes
        self.frames: list[bytes] = []
        self.marks: list[tuple[int, int]] = []
        self._durable_bytes = durable_bytes

    def add(self, batch: LogBatch) -> Stored:
        part, after = advance(self.position, batch)
        stored = Stored.counted(self.position, part)
        if part is not None:
            self.frames.append(pack(part, self._durable_bytes))
            self.marks.append((part.first_seq, self.end_bytes))
            self.end_bytes += len(self.frames[-1])
            self.position = after
        return stored


def _write(descriptor: int, data: bytes, offset: int) -> None:
    """Write all of it: a nearly full disk takes a part without complaint."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
