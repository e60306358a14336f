"""Which lines a reader wants: by stream, time and text, with lines around a match.

Loggers apply it to what is stored, clients to what comes live, so that both agree on every line. Patterns
are RE2's: searching takes time proportional to the text, whatever the pattern, and other threads go on
meanwhile.
"""

import re
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import re2

from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.log import LogLine, LogQuery

_UNFIT = re.compile(rb"\\[AzZC]|\(\?[A-Za-z]*-[A-Za-z]*m")
"""What would look beyond the line: ends of the text, any byte with the newline, `^` and `$` of the text."""
_REMEMBERED = 16
"""Each compiled pattern may take some megabytes once it has searched."""


class Filter(NamedTuple):
    """What to look for; see LogQuery."""

    stream: int | None = None
    since_s: float | None = None
    until_s: float | None = None
    grep: str = ""
    ignore_case: bool = False
    context: int = 0

    @property
    def is_open(self) -> bool:
        """Whether every line passes."""
        return self.stream is None and self.since_s is None and self.until_s is None

    @property
    def pattern(self) -> "Pattern | None":
        """What to find in lines; None if every line that passes matches.

        Raises:
            InvalidSpec: it is no regular expression.

        """
        return pattern_of(self.grep, self.ignore_case) if self.grep else None

    @property
    def reach(self) -> int:
        """How far away a match may be that makes a line wanted."""
        return self.context if self.grep else 0

    def passes(self, stream: int, at_s: float) -> bool:
        """Whether a line of this stream, read at this time, can be wanted."""
        return (self.stream is None or stream == self.stream) and self.overlaps(at_s, at_s)

    def overlaps(self, first_at_s: float, last_at_s: float) -> bool:
        """Whether lines read between these times can be wanted."""
        late_enough = self.since_s is None or last_at_s >= self.since_s
        return late_enough and (self.until_s is None or first_at_s < self.until_s)


EVERYTHING = Filter()


def filter_of(query: LogQuery) -> Filter:
    """The filter in a query."""
    return Filter(query.stream, query.since_s, query.until_s, query.grep, query.ignore_case, query.context)


class Pattern:
    """A regular expression over the bytes of lines.

    Raises:
        InvalidSpec: it is none.

    """

    def __init__(self, text: str, *, ignore_case: bool) -> None:
        raw = text.encode("utf-8", "surrogateescape")
        if _UNFIT.search(raw):
            raise InvalidSpec(
                r"a pattern is applied line by line: \A, \z, \C and (?-m) can't be used",
                "Write ^ and $ for the ends of a line, and . for any byte.",
            )
        try:
            self._search = re2.compile(b"(?m)" + raw, _options(ignore_case)).search
        except re2.error as error:
            why = error.args[0].decode(errors="replace") if error.args else "unknown"
            raise InvalidSpec(
                f"`{text[:80]}` is not a regular expression: {why}",
                r"It is Python's syntax, less backreferences and look-around. Write \. for a point itself.",
            ) from error

    def found_in(self, line: bytes) -> bool:
        """Whether a line, without its newline, holds it."""
        return self._search(line) is not None

    def numbers(self, text: bytes, first: int) -> Iterator[int]:
        """Numbers of the lines that hold it, in a text of whole lines, the first of which is `first`."""
        at = 0
        while at < len(text) and (match := self._search(text, at)):
            begin = match.start()
            if begin == len(text) and text.endswith(b"\n"):
                return  # behind the last newline there is no line
            first += text.count(b"\n", at, begin)
            yield first
            first += 1
            at = (text.find(b"\n", begin) + 1) or len(text)


@lru_cache(_REMEMBERED)
def pattern_of(text: str, ignore_case: bool) -> Pattern:
    """The pattern, compiled once."""
    return Pattern(text, ignore_case=ignore_case)


class Sieve:
    """Keeps lines back until it is known whether they are wanted. Takes those of a rank in their order."""

    def __init__(self, filter: Filter) -> None:  # noqa: A002 - that is what it is
        self._filter = filter
        self._pattern = filter.pattern
        self._last: dict[tuple[int, int], int] = {}
        """Number of the newest match of each attempt and rank."""
        self._waiting: dict[tuple[int, int], deque[LogLine]] = {}

    def take(self, line: LogLine) -> list[LogLine]:
        """The lines that are known to be wanted now."""
        if not self._filter.passes(line.stream, line.at_s):
            return []
        if self._pattern is None or self._pattern.found_in(line.text):
            return [*self._before(line), line]
        reach = self._filter.reach
        if not reach:
            return []
        if line.seq - self._last.get((line.attempt, line.rank), -reach - 1) <= reach:
            return [line]
        waiting = self._waiting.setdefault((line.attempt, line.rank), deque(maxlen=reach))
        waiting.append(line)
        return []

    def _before(self, match: LogLine) -> list[LogLine]:
        """Lines that a match makes wanted."""
        if not self._filter.reach:
            return []
        self._last[match.attempt, match.rank] = match.seq
        waiting = self._waiting.pop((match.attempt, match.rank), ())
        return [line for line in waiting if match.seq - line.seq <= self._filter.reach]


def _options(ignore_case: bool) -> re2.Options:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes: text need not be valid UTF-8
    options.never_nl = True
    options.never_capture = True
    options.log_errors = False
    options.case_sensitive = not ignore_case
    return options
