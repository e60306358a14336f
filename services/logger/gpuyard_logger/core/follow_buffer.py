"""How much of the stream is kept behind the store, so that followers need not ask for history at once."""

from collections import deque


class FollowBuffer:
    """Stored messages still in the stream, oldest first, by rounds."""

    def __init__(self, keep_bytes: int, keep_s: float) -> None:
        self._keep_bytes = keep_bytes
        self._keep_s = keep_s
        self._rounds: deque[tuple[int, int, float]] = deque()
        self._bytes = 0

    def add(self, through_seq: int, round_bytes: int, now_s: float) -> None:
        """A round of messages up to `through_seq` is stored."""
        self._rounds.append((through_seq, round_bytes, now_s))
        self._bytes += round_bytes

    def trim_before(self, now_s: float) -> int | None:
        """Forget what is too old or too much; the first sequence to keep, None if nothing is to go."""
        before: int | None = None
        while self._rounds and self._is_over(now_s):
            through_seq, round_bytes, _ = self._rounds.popleft()
            self._bytes -= round_bytes
            before = through_seq + 1
        return before

    def _is_over(self, now_s: float) -> bool:
        return self._bytes > self._keep_bytes or now_s - self._rounds[0][2] > self._keep_s
