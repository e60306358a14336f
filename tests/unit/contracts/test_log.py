from hypothesis import given
from hypothesis import strategies as st

from gpuyard.contracts.log import ERR, OUT, LogBatch, LogChunk, LogLine, lines_of

LINE = st.binary(max_size=10).map(lambda data: data.replace(b"\n", b""))


def batch(*chunks: LogChunk, first_seq: int = 0) -> LogBatch:
    return LogBatch("j1", 1, 0, first_seq, first_seq + sum(chunk.line_count for chunk in chunks), chunks)


def test_lines_are_numbered_over_both_streams() -> None:
    both = batch(LogChunk(OUT, 1.0, b"a\nb\n"), LogChunk(ERR, 2.0, b"oops\n"), first_seq=7)

    assert list(lines_of(both)) == [
        LogLine("j1", 1, 0, 7, OUT, 1.0, b"a"),
        LogLine("j1", 1, 0, 8, OUT, 1.0, b"b"),
        LogLine("j1", 1, 0, 9, ERR, 2.0, b"oops"),
    ]


def test_empty_lines_count() -> None:
    assert [line.text for line in lines_of(batch(LogChunk(OUT, 1.0, b"\n\nx\n\n")))] == [b"", b"", b"x", b""]


def test_a_last_line_may_lack_its_newline() -> None:
    assert [line.text for line in lines_of(batch(LogChunk(OUT, 1.0, b"a\nb")))] == [b"a", b"b"]


def test_only_newlines_split() -> None:
    odd = b"50%\r100%\x0b\x0c\x85 \xe2\x80\xa8\n"

    assert [line.text for line in lines_of(batch(LogChunk(OUT, 1.0, odd)))] == [odd[:-1]]


@given(st.lists(st.lists(LINE, min_size=1), max_size=5), st.integers(0, 2**40))
def test_every_line_comes_back_with_its_number(chunks: list[list[bytes]], first_seq: int) -> None:
    data = [b"".join(line + b"\n" for line in lines) for lines in chunks]
    whole = batch(*(LogChunk(OUT, 1.0, each) for each in data), first_seq=first_seq)

    lines = list(lines_of(whole))

    assert [line.text for line in lines] == [line for lines in chunks for line in lines]
    assert [line.seq for line in lines] == list(range(whole.first_seq, whole.next_seq))
