import re

from hypothesis import given
from hypothesis import strategies as st

from gpuyard.contracts.log import ERR, OUT, LogLine
from gpuyard.linefilter import EVERYTHING, Filter, Pattern, Sieve


def line(seq: int, text: bytes = b"", *, rank: int = 0, stream: int = OUT, at_s: float = 1.0) -> LogLine:
    return LogLine("job", 1, rank, seq, stream, at_s, text)


def sifted(lines: list[LogLine], wanted: Filter) -> list[int]:
    sieve = Sieve(wanted)
    return [kept.seq for each in lines for kept in sieve.take(each)]


def test_everything_passes_an_empty_filter() -> None:
    assert sifted([line(0), line(1, stream=ERR)], EVERYTHING) == [0, 1]


def test_a_stream_and_times() -> None:
    lines = [line(0, stream=ERR), *(line(seq, at_s=float(seq)) for seq in range(1, 6))]
    assert sifted(lines, Filter(stream=ERR)) == [0]
    assert sifted(lines, Filter(stream=OUT, since_s=2.0, until_s=4.0)) == [2, 3]


def test_lines_around_a_match_come_once_and_in_order() -> None:
    lines = [line(seq, b"hit" if seq in {4, 6, 20} else b"") for seq in range(23)]
    assert sifted(lines, Filter(grep="hit", context=2)) == [2, 3, 4, 5, 6, 7, 8, 18, 19, 20, 21, 22]
    assert sifted(lines, Filter(grep="hit")) == [4, 6, 20]


def test_lines_around_a_match_are_of_its_rank_and_pass_too() -> None:
    lines = [line(0, rank=1), line(0, stream=ERR), line(1), line(2, b"hit"), line(1, rank=1)]
    assert sifted(lines, Filter(stream=OUT, grep="hit", context=5)) == [1, 2]


def test_lines_that_are_missing_count_as_distance() -> None:
    assert sifted([line(0), line(7), line(9, b"hit"), line(30)], Filter(grep="hit", context=2)) == [7, 9]


def test_case_is_ignored_when_asked_to() -> None:
    assert not Pattern("cuda", ignore_case=False).found_in(b"CUDA")
    assert Pattern("cuda", ignore_case=True).found_in(b"CUDA")


def test_text_beyond_ascii_is_found_as_it_is_written() -> None:
    assert Pattern("größer|█+", ignore_case=False).found_in("100%|███".encode())
    assert Pattern("a.*b", ignore_case=False).found_in(b"a\xff\xfeb")


@given(
    st.lists(st.binary(max_size=6).map(lambda text: text.replace(b"\n", b"")), max_size=12),
    st.sampled_from(["a", "^a", "a$", "^$", "x*", "[^b]", r"\w", "(a|b)+c?", r"\bA\b"]),
    st.booleans(),
)
def test_a_text_is_searched_like_its_lines(lines: list[bytes], pattern: str, ignore_case: bool) -> None:
    text = b"".join(each + b"\n" for each in lines)
    flags = re.IGNORECASE if ignore_case else 0
    held = [
        number for number, each in enumerate(lines, 5) if re.search(pattern.encode(), each, re.ASCII | flags)
    ]
    ours = Pattern(pattern, ignore_case=ignore_case)
    assert list(ours.numbers(text, 5)) == held
    assert [number for number, each in enumerate(lines, 5) if ours.found_in(each)] == held
    assert list(ours.numbers(text[:-1] if lines and lines[-1] else text, 5)) == held
