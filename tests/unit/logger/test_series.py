"""Series in the store: paged, sealed with their lines, exactly once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuyard.bus.memory import MemoryBus
from gpuyard.client import metrics
from gpuyard.client.series import Point
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Failure
from gpuyard.contracts.job import Job, JobSpec, JobState, MetricRule, TaskSpec
from gpuyard.contracts.log import OUT, LogBatch, LogChunk, LogQuery, partition_of
from gpuyard.contracts.segment import LINES, SERIES
from gpuyard.contracts.series import SeriesChunk, SeriesPage, SeriesQuery
from gpuyard.contracts.subjects import JOB, SERIES_QUERY, STATE_STREAM
from gpuyard_logger import sealing
from gpuyard_logger.core.frame import Frame, Mark
from gpuyard_logger.core.gather import Gather
from gpuyard_logger.core.layout import Stream
from gpuyard_logger.core.sequence import START, Position
from gpuyard_logger.core.series import Piece, assemble, pieces
from gpuyard_logger.folder import Folder
from tests.unit.logger.batches import JOB as JOB_ID
from tests.unit.logger.batches import patient
from tests.unit.logger.running import LIMIT_S, new_bus, records, running, stored_through, write


def printed(first: int, after: int, *, rank: int = 0, job: str = JOB_ID, text: str = "loss") -> LogBatch:
    """Every second line holds numbers, which follow from the line's."""
    lines = (f"step {seq} {text} {seq / 8}" if seq % 2 else "words" for seq in range(first, after))
    data = "".join(f"{line}\n" for line in lines).encode()
    return LogBatch(job, 1, rank, first, after, (LogChunk(OUT, float(first), data),))


def frame(first_row: int, *chunks: bytes) -> Frame:
    marks = [Mark(OUT, float(first_row), len(chunk), chunk.count(b"\n")) for chunk in chunks]
    return Frame(first_row, first_row + sum(mark.lines for mark in marks), marks, b"".join(chunks))


# Pages


def test_rows_are_given_once_where_frames_overlap() -> None:
    frames = [frame(0, b"a\n", b"b\nc\n"), frame(1, b"b\nc\nd\n"), frame(2, b"c\n")]
    assert b"".join(piece.rows for piece in pieces(frames, 0)) == b"a\nb\nc\nd\n"
    assert [(piece.rows, piece.next_row) for piece in pieces(frames, 2)] == [(b"c\n", 3), (b"d\n", 4)]
    assert list(pieces(frames, 4)) == []


def stored(rows: dict[int, list[bytes]], per_chunk: int) -> tuple[dict[int, Position], object]:
    def read(rank: int, from_row: int) -> Iterator[Piece]:
        own = rows[rank]
        for first in range(0, len(own), per_chunk):
            after = min(first + per_chunk, len(own))
            if after > from_row:
                yield Piece(1.0, b"".join(own[max(first, from_row) : after]), after)

    return {rank: Position(len(own)) for rank, own in rows.items()}, read


@patient
@given(
    st.dictionaries(st.integers(0, 5), st.lists(st.just(b"0\tloss=1\n"), max_size=20), max_size=4),
    st.integers(1, 6),
    st.integers(1, 100),
    st.none() | st.integers(0, 8),
)
def test_pages_together_hold_every_row_once(
    rows: dict[int, list[bytes]], per_chunk: int, max_bytes: int, tail: int | None
) -> None:
    numbered = {rank: [b"%d\tloss=1\n" % n for n in range(len(own))] for rank, own in rows.items()}
    positions, read = stored(numbered, per_chunk)
    query = SeriesQuery(JOB_ID, tail=tail, max_bytes=max_bytes)
    found: dict[int, bytes] = dict.fromkeys(rows, b"")
    page = SeriesPage(1, complete=False)
    while not page.complete:
        page = assemble(replace(query, after=page.next), 1, positions, read)  # type: ignore[arg-type]
        for chunk in page.chunks:
            found[chunk.rank] += chunk.rows
    assert found == {
        rank: b"".join(own if tail is None else own[max(0, len(own) - tail) :])
        for rank, own in numbered.items()
    }


def test_only_the_ranks_that_are_wanted() -> None:
    positions, read = stored({0: [b"0\ta=1\n"], 1: [b"0\ta=2\n"]}, 1)
    page = assemble(SeriesQuery(JOB_ID, ranks=(1, 7)), 1, positions, read)  # type: ignore[arg-type]
    assert page == SeriesPage(1, (SeriesChunk(1, 1.0, b"0\ta=2\n"),), ((1, 1),))


# Sealed with their lines


def test_a_ranks_series_are_in_the_same_segment_as_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "MAX_ROWS", 4)
    gather = Gather(lambda _stream: START)
    for rank in range(7):
        batch = printed(0, 4, rank=rank)
        assert gather.take(batch, rank + 1, 0.0).batch == batch
        if rank % 3:
            gather.note(batch, [LogChunk(OUT, 0.0, b"1\tloss=1\n")])
    folder = Folder(tmp_path)
    segments = sealing.write_round(folder, gather.begin(), partition=0, holder="x", at_s=1.0)
    assert max(len(segment.rows) for segment in segments) <= 4
    for segment in segments:
        lines = {row.rank for row in segment.rows if row.kind == LINES}
        assert {row.rank for row in segment.rows if row.kind == SERIES} == {r for r in lines if r % 3}
    assert sorted(row.rank for s in segments for row in s.rows if row.kind == LINES) == list(range(7))


def test_rows_are_numbered_on_from_what_is_stored() -> None:
    gather = Gather(lambda stream: Position(10 if stream.kind == SERIES else 0))
    batch = printed(0, 4)
    gather.take(batch, 1, 0.0)
    gather.note(batch, [LogChunk(OUT, 0.0, b"1\tloss=1\n3\tloss=2\n")])
    assert gather.position(Stream(JOB_ID, 1, 0, SERIES)) == Position(12)
    assert set(gather.view(JOB_ID).positions) == {Stream(JOB_ID, 1, 0)}
    assert set(gather.view(JOB_ID, SERIES).positions) == {Stream(JOB_ID, 1, 0, SERIES)}


# A logger


async def points(bus: MemoryBus) -> list[Point]:
    return [point async for point in metrics.points(bus, JOB_ID, attempt=None, ranks=None)]


def seqs_of(points: list[Point], name: str = "loss") -> list[int]:
    assert all(point.value == point.seq / 8 for point in points if point.name == name)
    return [point.seq for point in points if point.name == name]


async def test_points_are_stored_once_whatever_comes_again(tmp_path: Path) -> None:
    bus = await new_bus()
    await write(bus, [printed(0, 6), printed(2, 8), printed(0, 6)])
    async with running(bus, tmp_path):
        await stored_through(bus, await write(bus, [printed(6, 20), printed(6, 20)]), LogQuery(JOB_ID))
        assert seqs_of(await points(bus)) == list(range(1, 20, 2))
    async with running(bus, tmp_path):
        await stored_through(bus, await write(bus, [printed(10, 30)]), LogQuery(JOB_ID))
        assert seqs_of(await points(bus)) == list(range(1, 30, 2))


async def test_points_are_given_out_before_they_are_sealed(tmp_path: Path) -> None:
    bus = await new_bus()
    async with running(bus, tmp_path, seal_s=600):
        seq = await write(bus, [printed(0, 6), printed(0, 4, rank=1)])
        await stored_through(bus, seq, LogQuery(JOB_ID))
        assert await records(bus) == {}
        assert [(p.rank, p.step, p.value) for p in await points(bus) if p.name == "loss"] == [
            (0, 1.0, 0.125),
            (0, 3.0, 0.375),
            (0, 5.0, 0.625),
            (1, 1.0, 0.125),
            (1, 3.0, 0.375),
        ]


async def test_own_rules_come_with_the_job(tmp_path: Path) -> None:
    bus = await new_bus()
    await bus.ensure((STATE_STREAM,))
    spec = JobSpec((TaskSpec(("x",)),), metrics=(MetricRule("luck", r"fortune (?P<value>[0-9.]+)"),))
    job = Job(JOB_ID, "r1", spec, JobState.RUNNING, 1, 1.0)
    await bus.append(JOB(job=JOB_ID), encode(job))
    async with running(bus, tmp_path):
        await stored_through(bus, await write(bus, [printed(0, 4, text="fortune")]), LogQuery(JOB_ID))
        assert seqs_of(await points(bus), "luck") == [1, 3]


async def test_a_record_that_can_not_be_read_keeps_no_lines_back(tmp_path: Path) -> None:
    bus = await new_bus()
    await bus.ensure((STATE_STREAM,))
    await bus.append(JOB(job=JOB_ID), b"\xc1")
    async with running(bus, tmp_path):
        await stored_through(bus, await write(bus, [printed(0, 4)]), LogQuery(JOB_ID))
        assert seqs_of(await points(bus)) == [1, 3]


async def test_bad_questions_get_a_failure(tmp_path: Path) -> None:
    bus = await new_bus()
    async with running(bus, tmp_path):
        subject = SERIES_QUERY(partition=partition_of(JOB_ID))
        for question in (b"", encode(SeriesQuery("../x")), encode(SeriesQuery(JOB_ID, max_bytes=10**9))):
            answer = await bus.request(subject, question, timeout_s=LIMIT_S)
            failure = decode(answer.payload, SeriesPage | Failure)
            assert isinstance(failure, Failure)
            assert failure.code == "invalid"
        answer = await bus.request(subject, encode(SeriesQuery(JOB_ID)), timeout_s=LIMIT_S)
        assert decode(answer.payload, SeriesPage | Failure) == SeriesPage(attempt=0)


async def test_a_long_series_takes_several_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = 0

    async def counted(*args: object, **kwargs: object) -> SeriesPage:
        nonlocal pages
        pages += 1
        return await ask(*args, **kwargs)  # type: ignore[arg-type]

    ask = metrics._page
    monkeypatch.setattr(metrics, "_page", counted)
    bus = await new_bus()
    batches = [printed(first, first + 500) for first in range(0, 40_000, 500)]
    async with running(bus, tmp_path):
        seq = await write(
            bus, [replace(b, chunks=(replace(b.chunks[0], at_s=n * 9.0),)) for n, b in enumerate(batches)]
        )
        await stored_through(bus, seq, LogQuery(JOB_ID, ranks=()))
        assert seqs_of(await points(bus)) == list(range(1, 40_000, 2))
    assert pages > 1
