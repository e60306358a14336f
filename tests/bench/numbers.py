"""What it costs the logger to look for numbers: in eight ranks that print as fast as lines are taken in, and
in one that prints as training programs do, where every line is read.
"""

import time
from collections.abc import Iterator

from gpuyard.contracts.log import OUT, LogBatch, LogChunk
from gpuyard_logger.core.number_rules import parse_line
from gpuyard_logger.core.numbers import Numbers
from tests.bench.figures import Figure

RANKS, LINES_S, SECONDS, PER_BATCH, RUNS = 8, 300_000, 5, 1000, 3
READ_LINES = 20_000


def measure() -> list[Figure]:
    batches = list(_flood())
    return [
        Figure(
            "numbers in 300,000 lines/s of 8 ranks",
            "% of a core",
            tuple(_share_of_a_core(batches) for _ in range(RUNS)),
            "under 10 %",
            10,
        ),
        Figure(
            "numbers in a line that is read", "microseconds", tuple(_line_us(batches[0]) for _ in range(RUNS))
        ),
    ]


def _flood() -> Iterator[LogBatch]:
    for number in range(LINES_S * SECONDS // PER_BATCH):
        rank, first = number % RANKS, number // RANKS * PER_BATCH
        data = b"".join(_line(rank, seq) for seq in range(first, first + PER_BATCH))
        at_s = 1e9 + number * PER_BATCH / LINES_S
        yield LogBatch("bench", 1, rank, first, first + PER_BATCH, (LogChunk(OUT, at_s, data),))


def _line(rank: int, seq: int) -> bytes:
    return b"rank %d epoch 3 step %07d/1000000 loss 0.%06d lr 1.0e-04 grad_norm 0.91 time 12.3ms\n" % (
        *(rank, seq),
        seq * 7919 % 1_000_000,
    )


def _share_of_a_core(batches: list[LogBatch]) -> float:
    numbers = Numbers()
    started_s = time.process_time()
    for batch in batches:
        numbers.rows(batch, (), batch.chunks[0].at_s)
    return 100 * (time.process_time() - started_s) / SECONDS


def _line_us(batch: LogBatch) -> float:
    line = batch.chunks[0].data.split(b"\n", 1)[0]
    started_s = time.process_time()
    for _ in range(READ_LINES):
        parse_line(line)
    return 1e6 * (time.process_time() - started_s) / READ_LINES
