"""A line that many ranks print, once. Pure.

Ranks of a gang print mostly the same lines, some a little later than others, and now and then one prints
something else. Each rank's lines wait in a queue of their own. Ranks whose next line is the same, printed at
about the same time, share a row. A text that another rank has still to come to waits for that rank: thus a
line that only some print does not throw the others out of step.

Lines are equal if their bytes and their stream are: `loss=0.51` and `loss=0.52` are two rows. Within a rank
the order never changes, and no line is left out: the rows that name a rank hold what it printed.
Cost: O(ranks) for each row, less where all ranks agree.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from gpuyard.cli.log_company import Company, Key
from gpuyard.contracts.log import LogLine

SAME_TIME_S = 30.0
"""Equal lines that are further apart are not the same event: ranks meet at every all-reduce."""
MOST_LINES = 65536
MOST_BYTES = 32 << 20


class Row(NamedTuple):
    """The same line of one or more ranks, sorted by rank."""

    lines: tuple[LogLine, ...]
    differs: bool
    """Here is the first that prints something else than most ranks do, since they agreed last."""

    @property
    def ranks(self) -> frozenset[int]:
        return frozenset(line.rank for line in self.lines)


class _Waiting(NamedTuple):
    line: LogLine
    came_s: float


class Fold:
    """Takes the lines of one attempt, each rank's in their order, and gives rows.

    Args:
        rank_count: A row of so many ranks waits for nobody.
        hold_s: How long a line waits for ranks that have not come to it; None: as long as there is room.
        most_lines: How many lines may wait.

    """

    def __init__(self, rank_count: int, *, hold_s: float | None = None, most_lines: int = MOST_LINES) -> None:
        self._rank_count = rank_count
        self._hold_s = hold_s
        self._most_lines = most_lines
        self._queues: dict[int, deque[_Waiting]] = {}
        self._next: dict[Key, set[int]] = {}
        """Ranks by the line that they print next."""
        self._coming: dict[Key, dict[int, deque[float]]] = {}
        """When each rank printed the lines that wait, its next one included."""
        self._line_count = 0
        self._text_bytes = 0
        self._company = Company(rank_count)

    def add(self, line: LogLine, now_s: float) -> None:
        """Take a rank's next line. `now_s` is any clock, the same for all calls."""
        queue = self._queues.setdefault(line.rank, deque())
        key = _key(line)
        if not queue:
            self._next.setdefault(key, set()).add(line.rank)
        queue.append(_Waiting(line, now_s))
        self._coming.setdefault(key, {}).setdefault(line.rank, deque()).append(line.at_s)
        self._count(line, 1)

    def rows(self, now_s: float) -> Iterator[Row]:
        """Rows that wait for nobody any more."""
        while self._next:
            key = next(iter(self._next)) if len(self._next) == 1 else None
            if key is None or len(self._sharers(key)) < self._rank_count:
                if not (self._is_full or self._is_any_due(now_s)):
                    return
                key = self._choice()
                if not (self._is_full or self._is_due(key, now_s)):
                    return
            yield self._row(key)

    def rest(self) -> Iterator[Row]:
        """What waits still: nothing more is coming."""
        while self._next:
            yield self._row(self._choice())

    @property
    def _is_full(self) -> bool:
        return self._line_count > self._most_lines or self._text_bytes > MOST_BYTES

    def _is_any_due(self, now_s: float) -> bool:
        return self._hold_s is not None and any(self._is_due(key, now_s) for key in self._next)

    def _is_due(self, key: Key, now_s: float) -> bool:
        if self._hold_s is None:
            return False
        came_s = min(self._queues[rank][0].came_s for rank in self._next[key])
        return came_s + self._hold_s <= now_s

    def _choice(self) -> Key:
        """The oldest line that no rank has still to come to; if each waits for another, the oldest."""
        if len(self._next) == 1:
            return next(iter(self._next))
        oldest_first = sorted(self._next, key=self._oldest)
        return next((key for key in oldest_first if not self._is_awaited(key)), oldest_first[0])

    def _oldest(self, key: Key) -> tuple[float, int]:
        return min((self._queues[rank][0].line.at_s, rank) for rank in self._next[key])

    def _is_awaited(self, key: Key) -> bool:
        """Whether a rank has this line in its queue, but others before it."""
        ranks, coming = self._next[key], self._coming[key]
        if len(coming) == len(ranks):
            return False
        latest_s = self._oldest(key)[0] + SAME_TIME_S
        return any(times[0] <= latest_s for rank, times in coming.items() if rank not in ranks)

    def _sharers(self, key: Key) -> list[int]:
        """Ranks that print this line next, at about the same time."""
        latest_s = self._oldest(key)[0] + SAME_TIME_S
        return sorted(rank for rank in self._next[key] if self._queues[rank][0].line.at_s <= latest_s)

    def _row(self, key: Key) -> Row:
        sharers = self._sharers(key)
        differs = self._company.leaves(key, frozenset(sharers), self._biggest_group())
        return Row(tuple(self._pop(rank, key) for rank in sharers), differs)

    def _biggest_group(self) -> frozenset[int] | None:
        """Who prints next what most ranks come to; None if there is but one line to choose from."""
        if len(self._next) == 1:
            return None
        key = max(self._next, key=lambda key: (len(self._coming[key]), -min(self._next[key])))
        return frozenset(self._next[key])

    def _pop(self, rank: int, key: Key) -> LogLine:
        """Take a rank's next line out of everything."""
        queue = self._queues[rank]
        line = queue.popleft().line
        _drop(self._next, key, rank)
        times = self._coming[key][rank]
        times.popleft()
        if not times:
            del self._coming[key][rank]
            if not self._coming[key]:
                del self._coming[key]
        if queue:
            self._next.setdefault(_key(queue[0].line), set()).add(rank)
        self._count(line, -1)
        return line

    def _count(self, line: LogLine, sign: int) -> None:
        self._line_count += sign
        self._text_bytes += sign * len(line.text)


def _key(line: LogLine) -> Key:
    return line.stream, line.text


def _drop(groups: dict[Key, set[int]], key: Key, rank: int) -> None:
    groups[key].discard(rank)
    if not groups[key]:
        del groups[key]
