"""Reads a rank's spool while its supervisor writes it. Plain reads of small files that were just written."""

import os
from collections.abc import AsyncGenerator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from gpuyard_executor.engine import OutputChunk
from gpuyard_executor.supervisor.spool import FRAME, segment_name, segment_starts

_READ_BYTES = 262_144


class SpoolReader:
    """A place in the spool, moving forward."""

    def __init__(self, directory: Path, offset: int) -> None:
        self.offset = offset
        self._directory = directory
        self._fd = -1
        self._start = 0

    def read(self) -> Sequence[OutputChunk]:
        """The next frames, as many as fit in one read; nothing if there are no more for now."""
        if self._fd < 0 and not self._find():
            return ()
        while True:
            chunks = self._parse(os.pread(self._fd, _READ_BYTES, self.offset - self._start))
            if chunks or not self._move_on():
                return chunks

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _find(self) -> bool:
        starts = segment_starts(str(self._directory))
        if not starts:
            return False
        self._open(max((start for start in starts if start <= self.offset), default=starts[0]))
        self.offset = max(self.offset, self._start)
        return True

    def _move_on(self) -> bool:
        """Go to the next segment if there is one: it begins where this one ends."""
        if self.offset == self._start or not (self._directory / segment_name(self.offset)).exists():
            return False
        self._open(self.offset)
        return True

    def _open(self, start: int) -> None:
        self.close()
        self._fd = os.open(self._directory / segment_name(start), os.O_RDONLY | os.O_CLOEXEC)
        self._start = start

    def _parse(self, data: bytes) -> Sequence[OutputChunk]:
        chunks = []
        at = 0
        while at + FRAME.size <= len(data):
            stream, at_s, length = FRAME.unpack_from(data, at)
            end = at + FRAME.size + length
            if end > len(data):
                break
            offset, next_offset = self.offset + at, self.offset + end
            chunks.append(OutputChunk(stream, at_s, data[at + FRAME.size : end], offset, next_offset))
            at = end
        self.offset += at
        return chunks


class Printer(Protocol):
    """A rank whose spool grows."""

    @property
    def has_exited(self) -> bool: ...
    async def output_after(self, offset: int) -> None: ...


async def follow_spool(
    directory: Path, offset: int, rank: Printer
) -> AsyncGenerator[Sequence[OutputChunk], None]:
    """What is in the spool from an offset on, as it comes, until the rank has exited."""
    reader = SpoolReader(directory, offset)
    try:
        while True:
            is_complete = rank.has_exited  # asked before reading: after that nothing more is written
            chunks = reader.read()
            if chunks:
                yield chunks
            elif is_complete:
                return
            else:
                await rank.output_after(reader.offset)
    finally:
        reader.close()


def delete_segments(directory: Path, before: int) -> None:
    """Forget output that lies before an offset, as far as whole segments go."""
    for start, next_start in pairwise(segment_starts(str(directory))):
        if next_start <= before:
            (directory / segment_name(start)).unlink()
