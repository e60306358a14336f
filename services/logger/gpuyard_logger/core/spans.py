"""Sets of line numbers: sorted ranges `[first, after)` that neither touch nor overlap."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Span(NamedTuple):
    """Line numbers from `first` up to, and not including, `after`."""

    first: int
    after: int


Spans = list[Span]


def joined(spans: Iterable[Span]) -> Spans:
    """Make one of those that touch or overlap; they must come in the order of their beginnings."""
    result: Spans = []
    for first, after in spans:
        if result and first <= result[-1].after:
            result[-1] = Span(result[-1].first, max(after, result[-1].after))
        elif first < after:
            result.append(Span(first, after))
    return result


def widened(spans: Iterable[Span], reach: int) -> Spans:
    """With the numbers at most so far away."""
    return joined(Span(max(0, first - reach), after + reach) for first, after in spans)


def clipped(spans: Iterable[Span], first: int, after: int) -> Spans:
    """What lies between."""
    return [
        Span(max(span.first, first), min(span.after, after))
        for span in spans
        if span.first < after and span.after > first
    ]


def common(one: Iterable[Span], other: Iterable[Span]) -> Spans:
    """The numbers in both."""
    return list(_common(iter(one), iter(other)))


def _common(ones: Iterator[Span], others: Iterator[Span]) -> Iterator[Span]:
    one, other = next(ones, None), next(others, None)
    while one and other:
        first, after = max(one.first, other.first), min(one.after, other.after)
        if first < after:
            yield Span(first, after)
        if one.after < other.after:
            one = next(ones, None)
        else:
            other = next(others, None)
