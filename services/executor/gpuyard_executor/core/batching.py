"""From raw output to batches of whole lines, and back to the same batch after a crash.

Output comes as chunks cut anywhere; lines of the two streams interleave. A batch takes complete lines in the
order in which they were completed. A line that does not go on for a while is sent unfinished, always as the
last of its batch: so a batch depends only on the positions before and after it, and can be rebuilt from them.
No line is parted where that might part a secret, which would not be recognised any more.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from gpuyard.contracts.log import LogChunk

MAX_LINE_BYTES = 262_144
MAX_BATCH_BYTES = 262_144
# Generous: unbuffered Python writes a line and its newline apart; a busy machine may pause between them.
IDLE_S, HELD_S = 1.0, 5.0
"""An unfinished line is sent when nothing came for so long, or when its beginning has waited so long."""
MOST_HELD_BYTES = MAX_LINE_BYTES + 65_536
"""A line that is longer is parted wherever it is."""
_FOREVER = float("inf")


class Chunk(Protocol):
    """Bytes of one stream, and where they lie."""

    @property
    def stream(self) -> int: ...
    @property
    def at_s(self) -> float: ...
    @property
    def data(self) -> bytes: ...
    @property
    def offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...


class Position(NamedTuple):
    """How far output is sent: read on at `offset`, skipping what of each stream was sent beyond it."""

    offset: int = 0
    skip_out: int = 0
    skip_err: int = 0
    next_seq: int = 0
    inside_key: int = 0
    """Streams that stand inside a private key, which is hidden: 1 output, 2 errors, 3 both."""


class Cut(NamedTuple):
    """Content of a batch, and the position after it."""

    chunks: tuple[LogChunk, ...]
    after: Position


class _Frame(NamedTuple):
    """A chunk not wholly sent: where it lies, bytes of both streams before it, of its own through it."""

    offset: int
    stream: int
    before: tuple[int, int]
    through: int


def _parts_nothing(_text: bytes) -> bool:
    return False


class Batcher:
    """Collects output from a position on. Times are any clock that only goes forward.

    Args:
        position: Where the output begins.
        parts_secret: Whether a line must not be parted behind this text.

    """

    def __init__(self, position: Position, parts_secret: Callable[[bytes], bool] = _parts_nothing) -> None:
        self._parts_secret = parts_secret
        self._seq = position.next_seq
        self._sent = [position.skip_out, position.skip_err]
        """Bytes of each stream sent, counted from where reading began."""
        self._skipped = tuple(self._sent)
        self._received = [0, 0]
        self._end = position.offset
        self._frames: deque[_Frame] = deque()
        self._lines: deque[LogChunk] = deque()
        self._partial = [LogChunk(0, 0.0, b""), LogChunk(1, 0.0, b"")]
        self._began_s = [0.0, 0.0]
        self._grew_s = [0.0, 0.0]

    def add(self, chunk: Chunk, now_s: float) -> None:
        stream, before = chunk.stream, (self._received[0], self._received[1])
        self._received[stream] += len(chunk.data)
        self._end = chunk.next_offset
        self._frames.append(_Frame(chunk.offset, stream, before, self._received[stream]))
        fresh = chunk.data[max(0, self._skipped[stream] - before[stream]) :]
        if fresh:
            self._split(stream, chunk.at_s, fresh, now_s)

    def _split(self, stream: int, at_s: float, fresh: bytes, now_s: float) -> None:
        held = self._partial[stream].data
        text = held + fresh
        end = text.rfind(b"\n", len(held)) + 1
        if self._is_too_long(text[end:]):
            end = len(text)
        if end:
            self._lines.append(LogChunk(stream, at_s, text[:end]))
        self._partial[stream] = LogChunk(stream, at_s, text[end:])
        self._grew_s[stream] = now_s
        if end or not held:
            self._began_s[stream] = now_s

    def _is_too_long(self, line: bytes) -> bool:
        return len(line) >= MOST_HELD_BYTES or (len(line) >= MAX_LINE_BYTES and not self._parts_secret(line))

    def forgive(self, seconds: float) -> None:
        """Time spent sending does not count: what goes on behind an unfinished line may lie there unread."""
        for stream in (0, 1):
            self._began_s[stream] += seconds
            self._grew_s[stream] += seconds

    def patience_s(self, now_s: float) -> float | None:
        """How long to wait for more before `cut` sends an unfinished line; None if there is none."""
        waiting = [partial for partial in self._partial if self._may_end(partial)]
        return min((max(0.0, self._due_s(partial) - now_s) for partial in waiting), default=None)

    def cut(self, now_s: float) -> Cut | None:
        """The next batch: complete lines, then unfinished ones that waited long enough. None: nothing."""
        taken: list[LogChunk] = []
        size_bytes = 0
        for chunk in self._ready(now_s):
            taken.append(chunk)
            size_bytes += len(chunk.data)
            if size_bytes >= MAX_BATCH_BYTES:
                break
        if not taken:
            return None
        for chunk in taken:
            self._sent[chunk.stream] += len(chunk.data)
            self._seq += chunk.line_count
        return Cut(tuple(taken), self._position())

    def _ready(self, now_s: float) -> Iterator[LogChunk]:
        while self._lines:
            yield self._lines.popleft()
        for partial in self._partial:
            is_last = now_s == _FOREVER and partial.data
            if is_last or (self._may_end(partial) and self._due_s(partial) <= now_s):
                self._partial[partial.stream] = LogChunk(partial.stream, partial.at_s, b"")
                yield partial

    def _may_end(self, partial: LogChunk) -> bool:
        return bool(partial.data) and not self._parts_secret(partial.data)

    def _due_s(self, partial: LogChunk) -> float:
        return min(self._grew_s[partial.stream] + IDLE_S, self._began_s[partial.stream] + HELD_S)

    def _position(self) -> Position:
        while self._frames and self._frames[0].through <= self._sent[self._frames[0].stream]:
            self._frames.popleft()
        if not self._frames:
            return Position(self._end, 0, 0, self._seq)
        first = self._frames[0]
        skip_out, skip_err = (sent - before for sent, before in zip(self._sent, first.before, strict=True))
        return Position(first.offset, skip_out, skip_err, self._seq)


class _Part(NamedTuple):
    stream: int
    at_s: float
    data: bytes
    offset: int
    next_offset: int


def covers(after: Position, chunks: Sequence[Chunk]) -> bool:
    """Whether these chunks, from an earlier position on, hold all that was sent up to this one."""
    left = [after.skip_out, after.skip_err]
    for chunk in chunks:
        if chunk.offset >= after.offset:
            left[chunk.stream] -= len(chunk.data)
    return bool(chunks) and chunks[-1].next_offset >= after.offset and max(left) <= 0


def rebuild(
    before: Position,
    after: Position,
    chunks: Iterable[Chunk],
    parts_secret: Callable[[bytes], bool] = _parts_nothing,
) -> tuple[LogChunk, ...]:
    """The batch between two positions once more, from the output since `before`."""
    batcher = Batcher(before, parts_secret)
    for chunk in _until(after, chunks):
        batcher.add(chunk, 0.0)
    taken: list[LogChunk] = []
    while cut := batcher.cut(_FOREVER):
        taken += cut.chunks
    return tuple(taken)


def _until(after: Position, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    left = [after.skip_out, after.skip_err]
    for chunk in chunks:
        if chunk.offset < after.offset:
            yield chunk
        elif any(left):
            data = chunk.data[: left[chunk.stream]]
            left[chunk.stream] -= len(data)
            yield _Part(chunk.stream, chunk.at_s, data, chunk.offset, chunk.next_offset)
        else:
            return
