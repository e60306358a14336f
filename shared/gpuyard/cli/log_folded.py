"""Folded lines on the screen: whose they are, how many ranks that is, and who differs first."""

import time
from collections.abc import Iterable, Mapping

from gpuyard.cli import terminal
from gpuyard.cli.log_fold import Fold, Row
from gpuyard.cli.log_ranks import render_ranks
from gpuyard.cli.loglines import Lines, Screens, job_mark
from gpuyard.contracts.log import LogLine

HOLD_S = 0.5
"""How long a line that is followed waits for the other ranks."""
BEAT_S = 0.1


class FoldPrinter:
    """Prints a line that many ranks print once.

    Args:
        rank_counts: How many ranks can print a line, by job.
        follow: Let no line wait long.

    """

    def __init__(self, rank_counts: Mapping[str, int], *, follow: bool) -> None:
        self._rank_counts = rank_counts
        self._hold_s = HOLD_S if follow else None
        self._folds: dict[str, Fold] = {}
        """Of each job's newest attempt."""
        self._attempts: dict[str, int] = {}
        self._screens = Screens()

    def print(self, lines: Lines) -> None:
        """Take lines, or none; print what waits for nobody any more."""
        now_s = time.monotonic()
        for line in lines:
            self._fold_of(line).add(line, now_s)
        for fold in self._folds.values():
            self._print(fold.rows(now_s))

    def end(self) -> None:
        """Print what waits still."""
        for fold in self._folds.values():
            self._print(fold.rest())

    def _fold_of(self, line: LogLine) -> Fold:
        if self._attempts.get(line.job) != line.attempt:
            if line.job in self._folds:
                self._print(self._folds[line.job].rest())
            self._attempts[line.job] = line.attempt
            self._folds[line.job] = Fold(self._rank_counts[line.job], hold_s=self._hold_s)
        return self._folds[line.job]

    def _print(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._screens.write(row.lines[0], self._mark(row), _colour(row))
        self._screens.flush()

    def _mark(self, row: Row) -> str:
        job = f"{job_mark(row.lines[0])} " if len(self._rank_counts) > 1 else ""
        count = f" x{len(row.lines)}" if len(row.lines) > 1 else ""
        return f"{'!' if row.differs else ' '} [{job}{render_ranks(row.ranks)}{count}] "


def _colour(row: Row) -> str:
    if row.differs:
        return "red"
    return "bold" if len(row.lines) > 1 else terminal.rank_colour(row.lines[0].rank)
