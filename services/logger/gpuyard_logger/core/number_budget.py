"""How much may be read in search of numbers: so much a second, and some in advance."""

from collections.abc import Sequence

from gpuyard.contracts.log import LogChunk

LINE_BYTES = 64
"""What a line costs beside its bytes."""


class Budget:
    """A bucket that fills with time, and never overflows. A clock that jumps back fills nothing."""

    def __init__(self, per_s: float, most: float) -> None:
        self._per_s = per_s
        self._most = most
        self._left = most
        self._at_s: float | None = None

    def left(self, now_s: float) -> float:
        """What may be spent now."""
        if self._at_s is not None:
            self._left = min(self._most, self._left + max(0.0, now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        return self._left

    def spend(self, cost: float) -> None:
        self._left -= cost


def newest_lines(chunk: LogChunk, room: float) -> tuple[int, list[bytes]]:
    """The last whole lines of a chunk that there is room for, without newlines.

    Returns:
        How many lines of the chunk come before them, and the lines.

    """
    data = chunk.data
    begin = 0 if len(data) <= room else data.find(b"\n", len(data) - max(int(room), 0)) + 1 or len(data)
    lines = data[begin:].split(b"\n")
    if not lines[-1]:
        lines.pop()
    if cost_of(lines) > room:
        lines = _fitting(lines, room)
    return chunk.line_count - len(lines), lines


def cost_of(lines: Sequence[bytes]) -> float:
    return sum(map(len, lines)) + LINE_BYTES * len(lines)


def _fitting(lines: list[bytes], room: float) -> list[bytes]:
    for count, line in enumerate(reversed(lines)):
        room -= len(line) + LINE_BYTES
        if room < 0:
            return lines[len(lines) - count :]
    return lines
