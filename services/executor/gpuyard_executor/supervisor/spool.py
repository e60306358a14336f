"""Output of a rank on disk: frames in segment files, so that what is shipped can be deleted bit by bit."""

import os
import struct
import time

FRAME = struct.Struct("<BdI")
"""Stream, seconds since the epoch, length; then the bytes as they were read."""
_PREFIX = "out."


class Spool:
    """Never loses a byte: what finds no room waits, and so does the program that prints it."""

    def __init__(self, segment_bytes: int, limit_bytes: int, offset: int = 0) -> None:
        self.offset = offset
        """Position after the last complete frame."""
        self._segment_bytes = segment_bytes
        self._limit_bytes = limit_bytes
        self._segment_start = offset
        self._oldest = 0
        self._fd = -1
        self._frame_bytes = 0
        self._pending = b""

    def append(self, stream: int, data: bytes) -> None:
        """Take one frame; only when the one before is written."""
        self._pending = FRAME.pack(stream, time.time(), len(data)) + data
        self._frame_bytes = len(self._pending)
        self.flush()

    def flush(self) -> bool:
        """Write what waits; tell whether nothing waits any more."""
        try:
            while self._pending:
                self._write()
        except OSError:
            return False  # a full disk, most likely; tried again later
        return True

    def has_room(self) -> bool:
        """Whether another frame may be read: nothing waits, and not too much is unshipped."""
        if self._pending:
            return False
        if self.offset - self._oldest >= self._limit_bytes:
            self._oldest = min(segment_starts("."), default=self.offset)
        return self.offset - self._oldest < self._limit_bytes

    def _write(self) -> None:
        if self._fd < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._fd = os.open(segment_name(self.offset), flags, 0o600)
            self._segment_start = self.offset
        written = os.write(self._fd, self._pending)
        self._pending = self._pending[written:]
        if not self._pending:
            self._finish_frame()

    def _finish_frame(self) -> None:
        self.offset += self._frame_bytes
        if self.offset - self._segment_start >= self._segment_bytes:
            os.close(self._fd)
            self._fd = -1


def segment_name(start: int) -> str:
    """Name of the segment whose first byte has this position."""
    return f"{_PREFIX}{start:020d}"


def segment_starts(directory: str) -> list[int]:
    """Positions at which the segments begin, oldest first."""
    names = os.listdir(directory)  # noqa: PTH208 - pathlib would double a supervisor's imports
    return sorted(int(name.removeprefix(_PREFIX)) for name in names if name.startswith(_PREFIX))


def spool_end(directory: str) -> int:
    """Where a spool goes on that another process wrote. A frame that was cut short is cut off."""
    starts = segment_starts(directory)
    if not starts:
        return 0
    path = f"{directory}/{segment_name(starts[-1])}"
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        end = _end_of_frames(fd)
        os.ftruncate(fd, end)
    finally:
        os.close(fd)
    return starts[-1] + end


def _end_of_frames(fd: int) -> int:
    size_bytes, end = os.fstat(fd).st_size, 0
    while end + FRAME.size <= size_bytes:
        after = end + FRAME.size + FRAME.unpack(os.pread(fd, FRAME.size, end))[2]
        if after > size_bytes:
            break
        end = after
    return end
