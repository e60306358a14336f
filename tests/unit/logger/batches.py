"""Builders and strategies for batches of output."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from gpuyard.contracts.log import ERR, OUT, LogBatch, LogChunk, LogLine, lines_of

JOB = "train-abc123"
patient = settings(deadline=None, suppress_health_check=list(HealthCheck))
"""A busy machine is no failure."""


def text_of(seq: int) -> bytes:
    return b"line %d" % seq


def batch(
    first_seq: int,
    next_seq: int,
    *,
    job: str = JOB,
    attempt: int = 1,
    rank: int = 0,
    end: bool = False,
    per_chunk: int = 3,
    at_s: float | None = None,
) -> LogBatch:
    """Lines `first_seq` to `next_seq` of a rank; what is in a line follows from its number."""
    starts = [*range(first_seq, next_seq, per_chunk), next_seq]
    chunks = tuple(
        LogChunk(
            ERR if start % 2 else OUT,
            float(start) if at_s is None else at_s,
            b"".join(text_of(seq) + b"\n" for seq in range(start, stop)),
        )
        for start, stop in pairwise(starts)
    )
    return LogBatch(job, attempt, rank, first_seq, next_seq, chunks, end=end)


def raw(*data: bytes, first_seq: int = 0, next_seq: int = 0, end: bool = False) -> LogBatch:
    """A batch of chunks with these bytes."""
    chunks = tuple(LogChunk(OUT, 1.0, piece) for piece in data)
    return LogBatch(JOB, 1, 0, first_seq, next_seq, chunks, end=end)


def lines(batches: Iterable[LogBatch]) -> list[LogLine]:
    return [line for one in batches for line in lines_of(one)]


def seqs(batches: Iterable[LogBatch]) -> list[int]:
    return [line.seq for line in lines(batches)]


def is_true_to_number(found: Sequence[LogLine]) -> bool:
    """Whether every line has the text that belongs to its number."""
    return all(line.text == text_of(line.seq) for line in found)


@st.composite
def faulty_writing(draw: st.DrawFn, *, most_lines: int = 60, rank: int = 0) -> list[LogBatch]:
    """What a writer sends that loses answers: all lines in order, with overlaps and repeats, then the end."""
    total = draw(st.integers(0, most_lines))
    batches: list[LogBatch] = []
    sent = 0
    while sent < total:
        first = draw(st.integers(max(0, sent - 5), sent))
        sent = max(sent, draw(st.integers(first + 1, min(total, first + 12))))
        written = batch(first, sent, rank=rank, per_chunk=draw(st.integers(1, 5)))
        batches.extend([written] * draw(st.sampled_from([1, 1, 1, 2])))
    batches.append(batch(draw(st.integers(0, total)), total, rank=rank, end=True))
    return batches
