"""Where in a rank's file a line lies: one mark per 64 KiB, so that 10 GB of output cost 2 MB of memory."""

from bisect import bisect_right

MARK_BYTES = 64 * 1024


class Index:
    """Marks (first line number, offset), ascending in both. Find is O(log n)."""

    def __init__(self) -> None:
        self._seqs: list[int] = []
        self._offsets: list[int] = []

    def add(self, first_seq: int, offset: int) -> None:
        """Tell of a frame; only one in 64 KiB is kept."""
        if not self._offsets or offset - self._offsets[-1] >= MARK_BYTES:
            self._seqs.append(first_seq)
            self._offsets.append(offset)

    def find(self, seq: int) -> int:
        """Offset of a frame at or before the one with line `seq`."""
        at = bisect_right(self._seqs, seq) - 1
        return self._offsets[at] if at >= 0 else 0
