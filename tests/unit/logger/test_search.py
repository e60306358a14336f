"""Filters over stored output, against the plain definition of what is wanted."""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.log import ERR, OUT, LogBatch, LogChunk, LogLine, LogPage, LogQuery, lines_of
from gpuyard.linefilter import Filter, filter_of
from gpuyard_logger.core.frame import Frame, pack, unpack
from gpuyard_logger.core.page import assemble
from gpuyard_logger.core.sequence import Position
from tests.unit.logger.batches import JOB, patient

Output = Mapping[int, Sequence[Frame]]
WORDS = (b"loss nan", b"ok", b"", b"\x00\xff", b"LOSS 1\r", b"a step b", b"step")


class Frames:
    """Output of ranks in memory."""

    def __init__(self, ranks: Output, ended: bool = False) -> None:
        self.ranks = ranks
        self.positions = {
            rank: Position(frames[-1].next_seq if frames else 0, ended) for rank, frames in ranks.items()
        }
        self.read = 0

    def onward(self, rank: int, from_seq: int) -> Iterator[Frame]:
        for frame in self.ranks[rank]:
            if frame.next_seq > from_seq:
                self.read += 1
                yield frame

    def back(self, rank: int, before_seq: int) -> Iterator[Frame]:
        for frame in reversed(self.ranks[rank]):
            if frame.first_seq < before_seq:
                self.read += 1
                yield frame

    def page(self, query: LogQuery, is_late: Callable[[], bool] = lambda: False) -> LogPage:
        return assemble(query, 1, self.positions, self, through_seq=0, is_late=is_late)

    def pages(self, query: LogQuery, is_late: Callable[[], bool] = lambda: False) -> list[LogPage]:
        """Page on to the end, as a reader does."""
        after: dict[int, int] = dict(query.after)
        pages: list[LogPage] = []
        while not pages or not pages[-1].complete:
            page = self.page(query, is_late)
            after |= dict(page.next)
            going_on = replace(query, after=tuple(sorted(after.items())), settling=page.settling)
            assert page.complete or going_on != query, "no progress"
            query = going_on
            pages.append(page)
        return pages

    def lines(self, rank: int) -> list[LogLine]:
        chunks = [(frame.first_seq, frame.next_seq, tuple(frame.chunks())) for frame in self.ranks[rank]]
        return [
            line
            for first, after, data in chunks
            for line in lines_of(LogBatch(JOB, 1, rank, first, after, data))
        ]


def frame_of(first_seq: int, *chunks: LogChunk) -> Frame:
    return unpack(*pack(first_seq, chunks))


def text_frame(*lines: bytes, first_seq: int = 0, at_s: float = 1.0) -> Frame:
    return frame_of(first_seq, LogChunk(OUT, at_s, b"".join(line + b"\n" for line in lines)))


def given_by(pages: Sequence[LogPage], rank: int) -> list[LogLine]:
    return [line for page in pages for one in page.batches if one.rank == rank for line in lines_of(one)]


def texts(pages: Sequence[LogPage], rank: int = 0) -> list[bytes]:
    return [line.text for line in given_by(pages, rank)]


def is_match(line: LogLine, wanted: Filter) -> bool:
    flags = re.IGNORECASE if wanted.ignore_case else 0
    found = not wanted.grep or re.search(wanted.grep.encode(), line.text, flags)
    return wanted.passes(line.stream, line.at_s) and bool(found)


def expected(lines: Sequence[LogLine], query: LogQuery, settled: int) -> list[LogLine]:
    """What the contract promises, word by word."""
    wanted = filter_of(query)
    reach = query.context if query.grep else 0
    matches = [line.seq for line in lines if is_match(line, wanted)]
    start = 0
    if query.tail is not None:
        end = lines[-1].seq + 1 if lines else 0
        last = matches[-query.tail :] if query.tail else []
        if wanted.is_open and not query.grep:
            last = [end - query.tail]  # lost lines count too
        start = max(0, min([*last, end]) - (reach if query.tail else 0))
    return [
        line
        for line in lines
        if start <= line.seq < settled
        and wanted.passes(line.stream, line.at_s)
        and any(abs(seq - line.seq) <= reach for seq in matches)
    ]


@st.composite
def chunks(draw: st.DrawFn, now_s: float) -> LogChunk:
    lines = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5))
    whole = draw(st.sampled_from([True, True, True, False])) or not lines[-1]
    data = b"\n".join(lines) + (b"\n" if whole else b"")
    return LogChunk(draw(st.sampled_from([OUT, OUT, ERR])), now_s + draw(st.integers(-2, 3)), data)


@st.composite
def outputs(draw: st.DrawFn) -> Output:
    """Frames of some ranks, with gaps between them, and now and then lines that two of them hold."""
    ranks: dict[int, list[Frame]] = {}
    for rank in range(draw(st.integers(1, 3))):
        frames: list[Frame] = []
        seq = 0
        for now_s in range(draw(st.integers(0, 6))):
            held = draw(st.lists(chunks(now_s * 4.0), min_size=1, max_size=4))
            frames.append(frame_of(seq + draw(st.sampled_from([0, 0, 0, 2])), *held))
            seq = frames[-1].next_seq
        ranks[rank] = frames
    return ranks


queries = st.builds(
    LogQuery,
    st.just(JOB),
    tail=st.none() | st.integers(0, 8),
    max_bytes=st.integers(1, 2000),
    stream=st.sampled_from([None, None, OUT, ERR]),
    since_s=st.none() | st.integers(0, 20).map(float),
    until_s=st.none() | st.integers(5, 30).map(float),
    grep=st.sampled_from(["", "nan", "step", "^step$", "^$", "loss|ok", "absent", r"\xff", "x*", r"o\s*s"]),
    ignore_case=st.booleans(),
    context=st.sampled_from([0, 0, 1, 3, 20]),
)


@patient
@given(outputs(), queries, st.integers(1, 5), st.booleans())
def test_pages_together_hold_exactly_what_is_wanted(
    output: Output, query: LogQuery, hurry: int, ended: bool
) -> None:
    frames = Frames(output, ended)
    turns = itertools.count(1)
    pages = frames.pages(query, lambda: next(turns) % hurry == 0)
    cursors = {rank: seq for page in pages for rank, seq in page.next}
    for rank, position in frames.positions.items():
        reach = query.context if query.grep else 0
        settled = cursors.get(rank, position.next_seq)
        assert settled >= position.next_seq - (0 if ended else reach)
        assert given_by(pages, rank) == expected(frames.lines(rank), query, settled)


@patient
@given(outputs(), queries)
def test_more_pages_give_the_same_as_one(output: Output, query: LogQuery) -> None:
    frames = Frames(output)
    whole = frames.pages(replace(query, max_bytes=786432))
    assert len(whole) == 1
    for rank in output:
        assert given_by(frames.pages(query), rank) == given_by(whole, rank)


@patient
@given(outputs(), queries, st.integers(0, 40))
def test_a_cursor_goes_on_where_it_stands(output: Output, query: LogQuery, seq: int) -> None:
    frames = Frames(output, ended=True)
    pages = frames.pages(replace(query, tail=None, after=((0, seq),)))
    whole = expected(frames.lines(0), replace(query, tail=None), frames.positions[0].next_seq)
    assert given_by(pages, 0) == [line for line in whole if line.seq >= seq]


def test_frames_that_overlap_give_each_line_once() -> None:
    frames = Frames({0: [text_frame(b"a", b"b", b"c"), text_frame(b"b", b"c", b"d", first_seq=1)]})
    assert texts(frames.pages(LogQuery(JOB, grep="[bcd]"))) == [b"b", b"c", b"d"]
    assert texts(frames.pages(LogQuery(JOB, grep=".", tail=3))) == [b"b", b"c", b"d"]


def test_a_pattern_does_not_reach_across_lines() -> None:
    frames = Frames({0: [text_frame(b"one", b"two", b"one two")]})
    for pattern in (r"one\stwo", r"one[^x]two", "(?s)one.two", r"one\Wtwo"):
        assert texts(frames.pages(LogQuery(JOB, grep=pattern))) == [b"one two"], pattern
    assert texts(frames.pages(LogQuery(JOB, grep="one\ntwo"))) == []


def test_lines_without_newline_end_where_their_chunk_ends() -> None:
    pieces = [LogChunk(OUT, 1.0, b"x" * 10 + b"one"), LogChunk(OUT, 1.0, b"two\n")]
    frames = Frames({0: [frame_of(0, *pieces)]})
    assert texts(frames.pages(LogQuery(JOB, grep="onetwo"))) == []
    assert texts(frames.pages(LogQuery(JOB, grep="one$"))) == [b"x" * 10 + b"one"]
    assert texts(frames.pages(LogQuery(JOB, grep="^two"))) == [b"two"]


def test_hostile_text_comes_back_as_it_is() -> None:
    hostile = [b"\x00" * 3, bytes(range(10)) + bytes(range(11, 256)), b"\x1b[31m\r", b"\xc3", b"z" * 500_000]
    frames = Frames({0: [text_frame(*hostile)]})
    assert texts(frames.pages(LogQuery(JOB))) == hostile
    assert texts(frames.pages(LogQuery(JOB, grep=""))) == hostile
    for line, pattern in zip(
        hostile, [r"^\x00+$", r"\x01\x02", r"\x1b\[31m\r$", r"^\xc3$", "zzz$"], strict=True
    ):
        assert line in texts(frames.pages(LogQuery(JOB, grep=pattern))), pattern


def test_a_frame_of_nothing_but_empty_lines() -> None:
    frames = Frames({0: [frame_of(0, LogChunk(OUT, 1.0, b"\n" * 262_144))]})
    pages = frames.pages(LogQuery(JOB))
    assert sum(one.next_seq - one.first_seq for page in pages for one in page.batches) == 262_144
    assert texts(frames.pages(LogQuery(JOB, grep="x"))) == []
    (page,) = frames.pages(LogQuery(JOB, grep="^$", tail=2))
    assert [line.seq for line in given_by([page], 0)] == [262_142, 262_143]


@pytest.mark.parametrize(
    "pattern", ["(", "a{2000}", r"(a)\1", "(?=a)", "[z-a]", r"\Aa", r"a\z", r"\C", "(?-m:^a)"]
)
def test_what_is_no_pattern_is_refused_with_a_reason(pattern: str) -> None:
    with pytest.raises(InvalidSpec) as error:
        Frames({0: [text_frame(b"a")]}).page(LogQuery(JOB, grep=pattern))
    assert error.value.hint


def test_a_pattern_that_explodes_elsewhere_takes_its_time_in_proportion() -> None:
    frames = Frames({0: [text_frame(b"a" * 5000 + b"!")]})
    assert texts(frames.pages(LogQuery(JOB, grep="^(a+)+$"))) == []


def test_a_search_in_vain_says_how_far_it_came() -> None:
    frames = Frames(
        {rank: [text_frame(b"x", first_seq=seq, at_s=seq) for seq in range(9)] for rank in (0, 1)}
    )
    page = frames.page(LogQuery(JOB, grep="absent"), lambda: True)
    assert (page.complete, page.batches) == (False, ())
    assert dict(page.next) == {0: 1, 1: 1}
    assert page.scanned_bytes == 4
    assert frames.pages(LogQuery(JOB, grep="absent"), lambda: True)[-1].scanned_bytes == 0


def test_a_tail_is_looked_for_backwards_over_pages() -> None:
    frames = Frames({0: [text_frame(b"hit" if seq < 3 else b"x", first_seq=seq) for seq in range(30)]})
    query = LogQuery(JOB, grep="hit", tail=2)
    page = frames.page(query, lambda: True)
    assert page.settling is not None
    assert (page.settling.seq, page.settling.lines, page.next) == (29, 2, ())
    assert [line.seq for line in given_by(frames.pages(query, lambda: True), 0)] == [1, 2]


def test_a_tail_reads_no_more_than_it_needs() -> None:
    frames = Frames({0: [text_frame(b"hit", first_seq=seq) for seq in range(100)]})
    assert len(texts(frames.pages(LogQuery(JOB, grep="hit", tail=3)))) == 3
    assert frames.read == 6


def test_many_ranks_are_merged_by_time_though_few_are_open_at_once() -> None:
    ranks = {
        rank: [text_frame(b"%d" % rank, first_seq=seq, at_s=seq * 1000.0 + rank) for seq in range(3)]
        for rank in range(150)
    }
    pages = Frames(ranks).pages(LogQuery(JOB, max_bytes=20_000))
    got = [line for page in pages for one in page.batches for line in lines_of(one)]
    assert [line.at_s for line in got] == sorted(line.at_s for line in got)
    assert len(got) == 450
