"""Which lines of which rank were given: joins history and live stream by line number, without gap or repeat.

Pure: pages and batches go in, lines come out. Lines of a rank come out in the order of their numbers; lines
of several ranks that are at hand together are merged by time.
"""

import heapq
from collections.abc import Collection, Iterable
from typing import NamedTuple

from gpuyard.contracts.log import LogBatch, LogLine, LogPage, LogQuery, Settling, lines_of
from gpuyard.linefilter import EVERYTHING, Filter, Sieve


class Loss(NamedTuple):
    """Numbers that are missing for good: their writer lost the lines."""

    rank: int
    first_seq: int
    next_seq: int


class Join:
    """A reader's place in the output of one attempt.

    Args:
        attempt: None: the first one that shows.
        ranks: None: all.
        tail: begin so many lines before the end of what is stored; None: with the first line.
        expected_ranks: how many ranks there are, if that is known.
        wanted: which lines to give.

    Raises:
        InvalidSpec: what they should hold is no regular expression.

    """

    def __init__(
        self,
        attempt: int | None = None,
        ranks: Collection[int] | None = None,
        tail: int | None = None,
        expected_ranks: int | None = None,
        wanted: Filter = EVERYTHING,
    ) -> None:
        self.attempt = attempt
        self.ranks = None if ranks is None else frozenset(ranks)
        self.losses: list[Loss] = []
        self._tail = tail
        self._wanted = wanted
        self._sieve = Sieve(wanted)
        self._settling: Settling | None = None
        self._asks_all = False
        self._expected = expected_ranks if self.ranks is None else len(self.ranks)
        self._next: dict[int, int] = {}
        self._ended: set[int] = set()

    @property
    def is_done(self) -> bool:
        """Whether every expected rank's output was given to its end."""
        return self._expected is not None and len(self._ended) >= self._expected

    def query(self, job: str) -> LogQuery:
        """What to ask the logger for next."""
        wanted = self._wanted._replace(grep="", context=0) if self._asks_all else self._wanted
        return LogQuery(
            job,
            self.attempt,
            None if self.ranks is None else tuple(sorted(self.ranks)),
            after=tuple(sorted(self._next.items())),
            tail=self._tail,
            stream=wanted.stream,
            since_s=wanted.since_s,
            until_s=wanted.until_s,
            grep=wanted.grep,
            ignore_case=wanted.ignore_case,
            context=wanted.context,
            settling=self._settling,
        )

    def ask_all(self) -> bool:
        """From now on ask for lines without a match too; False if there is no need.

        Whether the last stored lines stand around a match depends on lines that are not stored yet.
        """
        needs = self._wanted.reach > 0 and not self._asks_all
        self._asks_all = self._asks_all or needs
        return needs

    def take_page(self, page: LogPage) -> list[LogLine]:
        """New lines of a page that are wanted. What is missing in it is missing for good."""
        self.attempt = self.attempt or page.attempt or None
        self._settling = page.settling
        lines: dict[int, list[LogLine]] = {}
        for batch in page.batches:
            self._note_loss(batch.rank, batch.first_seq)
            lines.setdefault(batch.rank, []).extend(self._new_lines(batch))
        for rank, next_seq in page.next:
            self._note_loss(rank, next_seq)
            self._move(rank, next_seq)
        if self._is_sparse:
            self.losses.extend(Loss(*damaged) for damaged in page.damaged)
        if page.complete:
            self._ended.update(page.ended)
        return self._sifted(_merged(lines.values()))

    def take_batch(self, batch: LogBatch) -> list[LogLine] | None:
        """New wanted lines of a batch from the stream; None if lines before it must come from the logger."""
        self.attempt = self.attempt or batch.attempt
        if not self._wants(batch):
            return []
        if batch.first_seq > self._next.get(batch.rank, 0):
            return None
        lines = self._new_lines(batch)
        if batch.end:
            self._ended.add(batch.rank)
        return self._sifted(lines)

    def lacks(self, page: LogPage) -> bool:
        """Whether there is anything in the answer to `query` that was not given yet."""
        ended = page.ended if self.ranks is None else self.ranks.intersection(page.ended)
        return bool(page.batches) or not page.complete or not self._ended.issuperset(ended)

    def begin_at(self, batch: LogBatch) -> None:
        """Without a logger to tell where the tail begins, a rank begins where the stream shows it first."""
        self.attempt = self.attempt or batch.attempt
        if self._tail is not None and self._wants(batch):
            self._next.setdefault(batch.rank, batch.first_seq)

    def _wants(self, batch: LogBatch) -> bool:
        is_ours = batch.attempt == self.attempt and (self.ranks is None or batch.rank in self.ranks)
        return is_ours and batch.rank not in self._ended

    def _new_lines(self, batch: LogBatch) -> list[LogLine]:
        next_seq = self._next.get(batch.rank, 0)
        self._move(batch.rank, batch.next_seq)
        return [line for line in lines_of(batch) if line.seq >= next_seq]

    def _move(self, rank: int, next_seq: int) -> None:
        self._next[rank] = max(next_seq, self._next.get(rank, 0))

    @property
    def _is_sparse(self) -> bool:
        """Whether pages leave out lines that are not wanted."""
        return not (self._wanted.is_open and (self._asks_all or not self._wanted.grep))

    def _sifted(self, lines: list[LogLine]) -> list[LogLine]:
        if self._wanted == EVERYTHING:
            return lines
        return [wanted for line in lines for wanted in self._sieve.take(line)]

    def _note_loss(self, rank: int, seq: int) -> None:
        """Given is what comes from `seq` on."""
        begin = 0 if self._tail is None else seq
        next_seq = self._next.get(rank, begin)
        if seq > next_seq and not self._is_sparse:
            self.losses.append(Loss(rank, next_seq, seq))


def _merged(by_rank: Iterable[list[LogLine]]) -> list[LogLine]:
    """Merge by time. A rank whose clock went backwards keeps its order all the same."""
    return list(heapq.merge(*by_rank, key=lambda line: line.at_s))
