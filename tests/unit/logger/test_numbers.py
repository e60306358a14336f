"""From batches to rows: what is read, what is left out, and what is remembered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.contracts.job import MetricRule
from gpuyard.contracts.log import ERR, OUT, LogBatch, LogChunk
from gpuyard.contracts.series import NumberRow, SeriesChunk, parse_rows
from gpuyard_logger.core.number_budget import LINE_BYTES, Budget, cost_of, newest_lines
from gpuyard_logger.core.number_patterns import Rule, rules_of
from gpuyard_logger.core.numbers import ALL_BYTES, MAX_NAMES, STREAM_BYTES, STREAM_BYTES_S, Numbers
from tests.unit.logger.batches import JOB, patient


def batch(*chunks: LogChunk, first_seq: int = 0, rank: int = 0) -> LogBatch:
    lines = sum(chunk.line_count for chunk in chunks)
    return LogBatch(JOB, 1, rank, first_seq, first_seq + lines, chunks)


def out(data: bytes, at_s: float = 1.0) -> LogChunk:
    return LogChunk(OUT, at_s, data)


def rows_in(
    numbers: Numbers, one: LogBatch, own: tuple[Rule, ...] | list[Rule] = (), now_s: float = 0.0
) -> list[NumberRow]:
    found = numbers.rows(one, own, now_s)
    return [row for chunk in found for row in parse_rows(SeriesChunk(0, chunk.at_s, chunk.data))]


def told(rows: list[NumberRow]) -> list[str]:
    return [
        f"{row.seq}: "
        + " ".join(f"{n.name}={n.value:g}" + (f"/{n.total:g}" if n.total else "") for n in row.numbers)
        for row in rows
    ]


def test_lines_with_numbers_become_rows_under_their_own_number() -> None:
    data = b"begin\nstep 1/3 loss 0.5\n\nstep 2/3 loss 0.4\n"
    found = Numbers().rows(batch(out(data), LogChunk(ERR, 2.0, b"acc=1\n"), first_seq=10), (), 0.0)
    assert [(chunk.stream, chunk.at_s) for chunk in found] == [(OUT, 1.0), (ERR, 2.0)]
    assert [chunk.data for chunk in found] == [
        b"11\tstep=1/3\tloss=0.5\n13\tstep=2/3\tloss=0.4\n",
        b"14\tacc=1\n",
    ]


def test_a_batch_without_numbers_gives_nothing() -> None:
    assert Numbers().rows(batch(out(b"hello\nworld\n")), (), 0.0) == []
    assert Numbers().rows(batch(), (), 0.0) == []


def test_a_bar_that_is_still_drawn_gives_its_last_whole_state() -> None:
    numbers = Numbers()
    bar = b"\r 10%%|# | %d/100 [00:01<00:09, 2.0it/s]"
    assert told(rows_in(numbers, batch(out(bar % 10 + bar % 20 + b"\r 30%|## | 30/1")))) == [
        "0: step=20/100 it/s=2"
    ]
    rest = b"00 [00:03<00:07, 2.0it/s]" + bar % 31 + b"\nloss=1\n"
    assert told(rows_in(numbers, batch(out(rest), first_seq=1))) == ["1: step=31/100 it/s=2", "2: loss=1"]


def test_the_rest_of_a_line_that_went_on_is_not_read_as_a_line() -> None:
    numbers = Numbers()
    assert rows_in(numbers, batch(out(b"the validation "))) == []
    assert told(rows_in(numbers, batch(out(b"loss=0.5\nloss=0.4\n"), first_seq=1))) == ["2: loss=0.4"]


def test_streams_go_on_by_themselves() -> None:
    numbers = Numbers()
    rows_in(numbers, batch(LogChunk(ERR, 1.0, b"bar...")))
    assert told(rows_in(numbers, batch(out(b"loss=1\n"), first_seq=1))) == ["1: loss=1"]


def test_tables_are_read_below_their_heading() -> None:
    heading = "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size"
    line = "    151/200      10.4G     0.4635     0.2344      0.805       1578        640: "
    bar = "100%|████| 99/99 [01:52<00:00,  2.0s/it]"
    other = "   Class     Images  Instances      Box(P          R      mAP50): 100%|██| 32/32 [00:16<00:00]"
    classes = "                   all        498      70099      0.937      0.905      0.941"
    text = "\n".join(("", heading, line + bar, other, classes, ""))
    (row,) = rows_in(Numbers(), batch(out(text.encode())))
    assert told([row]) == [
        "2: epoch=151/200 gpu_mem=10.4 box_loss=0.4635 cls_loss=0.2344 dfl_loss=0.805 step=99/99 it/s=0.5"
    ]


def test_own_rules_go_first_and_come_beside_the_others() -> None:
    own = rules_of(
        [
            MetricRule("reward", r"won (?P<value>[-0-9.]+) in game (?P<step>\d+) of (?P<total>\d+)"),
            MetricRule("loss", r"true loss (?P<value>\S+)"),
            MetricRule("step", r"^at (?P<value>\d+)(?: of (?P<total>\d+))?"),
        ]
    )
    data = b"won -1.5 in game 3 of 9, lr=0.1\nloss=1 true loss 2\ntrue loss unknown\nat 5 of 10\n\xff won 1\n"
    assert told(rows_in(Numbers(), batch(out(data)), list(own))) == [
        "0: reward=-1.5 step=3/9 lr=0.1",
        "1: loss=2",
        "3: step=5/10",
    ]


def test_the_newest_lines_are_read_when_there_are_too_many() -> None:
    numbers = Numbers()
    data = b"".join(b"step %d loss 0.%06d\n" % (n, n) for n in range(10_000))
    rows = rows_in(numbers, batch(out(data)))
    assert rows[-1].seq == 9_999
    assert rows[0].seq == 10_000 - len(rows) == numbers.unread_lines
    assert sum(len(line) + LINE_BYTES for line in data.splitlines()[-len(rows) :]) == pytest.approx(
        STREAM_BYTES, rel=0.01
    )
    assert rows_in(numbers, batch(out(data), first_seq=10_000)) == []


def test_a_rank_may_print_on_after_a_while() -> None:
    numbers = Numbers()
    line = b"loss=1".ljust(64 - 1) + b"\n"
    rows_in(numbers, batch(out(line * 2000, at_s=1.0)))
    a_second_later = rows_in(numbers, batch(out(line * 2000, at_s=2.0)))
    assert len(a_second_later) == pytest.approx(STREAM_BYTES_S / (63 + LINE_BYTES), abs=2)
    assert len(rows_in(numbers, batch(out(line * 2000, at_s=900.0)))) == pytest.approx(
        STREAM_BYTES / (63 + LINE_BYTES), abs=2
    )


def test_all_ranks_together_cost_no_more_than_so_much() -> None:
    numbers = Numbers()
    line = b"loss=1".ljust(999) + b"\n"
    for rank in range(2 * ALL_BYTES // STREAM_BYTES):
        rows_in(numbers, batch(out(line * 100), rank=rank))
    assert rows_in(numbers, batch(out(line), rank=999)) == []
    assert told(rows_in(numbers, batch(out(line), rank=998), now_s=1.0)) == ["0: loss=1"]


def test_empty_lines_cost_too() -> None:
    numbers = Numbers()
    rows_in(numbers, batch(out(b"\n" * 100_000)))
    assert numbers.unread_lines > 98_000


def test_a_rank_gets_so_many_series() -> None:
    numbers = Numbers()
    made_up = b"".join(b"m%d=1\n" % n for n in range(MAX_NAMES + 50))
    assert len(rows_in(numbers, batch(out(made_up)))) == MAX_NAMES
    assert told(rows_in(numbers, batch(out(b"m0=2 new=1\n"), first_seq=999))) == ["999: m0=2"]


def test_a_budget_fills_with_time_and_never_overflows() -> None:
    budget = Budget(per_s=10, most=100)
    assert budget.left(5.0) == 100
    budget.spend(80)
    assert budget.left(6.0) == 30
    assert budget.left(0.0) == 30
    assert budget.left(1.0) == 40
    assert budget.left(1e9) == 100


@patient
@given(
    st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=20),
    st.integers(0, 3000),
    st.booleans(),
)
def test_the_newest_lines_fit_and_are_numbered_right(lines: list[bytes], room: int, ends: bool) -> None:
    data = b"\n".join(lines) + b"\n" * (ends and bool(lines))
    chunk = out(data)
    skipped, kept = newest_lines(chunk, room)
    assert cost_of(kept) <= room or not kept
    assert skipped + len(kept) == chunk.line_count
    assert kept == data.removesuffix(b"\n").split(b"\n")[skipped:] or not kept


@patient
@given(
    st.lists(st.sampled_from([b"loss=1\n", b"step 1/2 loss 3\n", b"words\n", b"\n"]), max_size=30), st.data()
)
def test_it_does_not_matter_how_lines_are_cut_into_batches(lines: list[bytes], data: st.DataObject) -> None:
    whole = rows_in(Numbers(), batch(out(b"".join(lines))))
    numbers = Numbers()
    pieces, seq = [], 0
    while seq < len(lines):
        after = data.draw(st.integers(seq + 1, len(lines)))
        pieces += rows_in(numbers, batch(out(b"".join(lines[seq:after])), first_seq=seq))
        seq = after
    assert pieces == whole
