"""Rows of numbers from the lines of a logger's partitions: reads what is new of each batch, within a budget.

Rows follow from lines that were cut by number, and are sealed together with them: so they, too, are kept
exactly once. What is remembered from line to line only helps to read; it may be lost at any time.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from gpuyard.contracts.log import LogBatch, LogChunk
from gpuyard.contracts.series import Number, render_row
from gpuyard_logger.core.layout import Stream
from gpuyard_logger.core.number_budget import Budget, cost_of, newest_lines
from gpuyard_logger.core.number_patterns import Rule
from gpuyard_logger.core.number_rules import MAX_LINE_BYTES, last_state, parse_line
from gpuyard_logger.core.number_table import Columns, columns_of, parse_row

STREAM_BYTES_S, STREAM_BYTES = 16 * 1024, 64 * 1024
"""What is read of a rank in each second of its own time, and at once."""
ALL_BYTES_S, ALL_BYTES = 512 * 1024, 4 * 1024 * 1024
"""What is read of all ranks, by the logger's clock: about a tenth of a core."""
MAX_NAMES = 256
"""Series of a rank; a program that makes up names does not get more."""
_REMEMBERED_RANKS = 4096


@dataclass
class _Memory:
    """What is remembered of a rank."""

    budget: Budget = field(default_factory=lambda: Budget(STREAM_BYTES_S, STREAM_BYTES))
    columns: Columns = ()
    unfinished: set[int] = field(default_factory=set)
    """Streams whose last line goes on."""
    names: set[str] = field(default_factory=set)


class Numbers:
    """Finds rows in batches, which must be new and come in their order."""

    def __init__(self) -> None:
        self.unread_lines = 0
        """Lines that were left out since there were too many."""
        self._all = Budget(ALL_BYTES_S, ALL_BYTES)
        self._ranks: OrderedDict[Stream, _Memory] = OrderedDict()

    def rows(self, batch: LogBatch, own: Sequence[Rule], now_s: float) -> list[LogChunk]:
        """The rows of a batch; one chunk for each that has some.

        Args:
            batch: What is new of it.
            own: The job's own rules.
            now_s: Monotonic.

        """
        memory = self._memory(Stream(batch.job, batch.attempt, batch.rank))
        found: list[LogChunk] = []
        seq = batch.first_seq
        for chunk in batch.chunks:
            if rows := self._of_chunk(memory, chunk, seq, own, now_s):
                found.append(LogChunk(chunk.stream, chunk.at_s, rows))
            seq += chunk.line_count
        return found

    def _of_chunk(
        self, memory: _Memory, chunk: LogChunk, seq: int, own: Sequence[Rule], now_s: float
    ) -> bytes:
        room = min(memory.budget.left(chunk.at_s), self._all.left(now_s))
        skipped, lines = newest_lines(chunk, room)
        goes_on = not chunk.data.endswith(b"\n")
        went_on = chunk.stream in memory.unfinished and not skipped
        (memory.unfinished.add if goes_on else memory.unfinished.discard)(chunk.stream)
        cost = cost_of(lines)
        memory.budget.spend(cost)
        self._all.spend(cost)
        self.unread_lines += skipped
        last = len(lines) - 1
        rows = []
        for index, line in enumerate(lines):
            whole = last_state(line, is_whole=not (goes_on and index == last))
            if went_on and index == 0 and whole == line:
                continue  # the end of a line whose beginning was read before
            if numbers := _known(memory, _numbers(memory, whole, own)):
                rows.append(render_row(seq + skipped + index, numbers))
        return b"".join(rows)

    def _memory(self, rank: Stream) -> _Memory:
        memory = self._ranks.pop(rank, None) or _Memory()
        self._ranks[rank] = memory
        if len(self._ranks) > _REMEMBERED_RANKS:
            self._ranks.popitem(last=False)
        return memory


def _numbers(memory: _Memory, line: bytes, own: Sequence[Rule]) -> list[Number]:
    """The numbers in a line, each name once: the job's own rules go first."""
    if not line or len(line) > MAX_LINE_BYTES:
        return []
    found: dict[str, Number] = {}
    if own:
        text = line.decode(errors="replace")
        found = {number.name: number for rule in own for number in rule(text)}
    if columns := columns_of(line):
        memory.columns = columns
    else:
        table = parse_row(line, memory.columns) if memory.columns else []
        for number in (*table, *parse_line(line)):
            found.setdefault(number.name, number)
    return list(found.values())


def _known(memory: _Memory, numbers: list[Number]) -> list[Number]:
    """Without the names that are too many."""
    if len(memory.names) < MAX_NAMES:
        memory.names.update(number.name for number in numbers)
        return numbers
    return [number for number in numbers if number.name in memory.names]
