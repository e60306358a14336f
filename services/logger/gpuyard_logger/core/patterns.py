"""Finds lines that rules look for, in much output at a time: nothing is done line by line.

Output nearly never holds what is looked for, so all depends on how fast that is seen. A long text is searched
for each shipped rule's plain text, at memory speed. A short one, and one for the rules that users wrote, is
first searched for all of them at once: that costs the same however many there are.
"""

import re
from collections.abc import Iterator, Sequence, Set
from typing import Any, NamedTuple

from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.log import LogBatch
from gpuyard.contracts.log_rule import LogRule
from gpuyard.contracts.pattern import compiled_for_lines
from gpuyard_logger.core.pattern_rules import Wanted

MOST_SHOWN_BYTES = 500
_SHOWN_BEFORE_BYTES = 100
_SHORT_BYTES = 49_152
"""Below, the cost of many searches is more than that of one for everything."""
_LASTING_BYTES = 32_768
_TOGETHER_BYTES = 8 << 20
_ESCAPED = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class Found(NamedTuple):
    """A line that a rule looks for; `line` is fit to be shown."""

    rule: LogRule
    rank: int
    line: str
    at_s: float


class Patterns:
    """Rules, ready to be looked for.

    Args:
        shipped: Those that begin with plain text.
        own: Those of which nothing is known.

    """

    def __init__(self, shipped: Sequence[Wanted], own: Sequence[Wanted]) -> None:
        self._groups = [_Group(shipped, is_plain=True)]
        if own:
            self._groups.append(_Group(own, is_plain=False))

    def find(self, batches: Sequence[LogBatch], met: Set[str]) -> list[Found]:
        """The first line in an attempt's batches for each rule that is not met."""
        # A piece of a line has no newline of its own; what follows must not look like the rest of it.
        text = b"\n".join(chunk.data for batch in batches for chunk in batch.chunks)
        found = []
        for group in self._groups:
            for rule, start, end in group.find(text, met):
                rank, at_s = _origin(batches, start)
                found.append(Found(rule, rank, _shown(text, start, end), at_s))
        return found


class _Group:
    """Rules that are looked for together."""

    def __init__(self, wanted: Sequence[Wanted], *, is_plain: bool) -> None:
        self._is_plain = is_plain
        self._any = _together(wanted)
        self._each = [_Search(each) for each in wanted]

    def find(self, text: bytes, met: Set[str]) -> Iterator[tuple[LogRule, int, int]]:
        """Each rule with the first place where it is found."""
        if self._is_free_of_all(text):
            return
        clues: dict[str, bool] = {}
        for search in self._each:
            if search.rule.name not in met and (place := search.first(text, clues)):
                yield search.rule, *place

    def _is_free_of_all(self, text: bytes) -> bool:
        is_quick = not self._is_plain or len(text) < _SHORT_BYTES
        return is_quick and self._any is not None and self._any.search(text) is None


class _Search:
    """One rule, compiled."""

    def __init__(self, wanted: Wanted) -> None:
        self.rule = wanted.rule
        self._patterns = [compiled_for_lines(pattern) for pattern in wanted.patterns]
        self._clues = {clue: compiled_for_lines(clue) for clue in wanted.clues}
        self._is_lasting = wanted.is_lasting

    def first(self, text: bytes, clues: dict[str, bool]) -> tuple[int, int] | None:
        """Where the first line is that it looks for.

        Args:
            text: Lines.
            clues: Whether they are in the text, as far as that is known; what is learnt is added.

        """
        begin = max(0, len(text) - _LASTING_BYTES) if self._is_lasting else 0
        for clue, pattern in self._clues.items():
            if clue not in clues:
                clues[clue] = pattern.search(text, begin) is not None
        if self._clues and not any(clues[clue] for clue in self._clues):
            return None
        places = [match.span() for pattern in self._patterns if (match := pattern.search(text, begin))]
        return min(places, default=None)


def _together(wanted: Sequence[Wanted]) -> Any:
    """One pattern for all of them; None if it would be too large."""
    try:
        patterns = (f"(?:{pattern})" for each in wanted for pattern in each.patterns)
        return compiled_for_lines("|".join(patterns), _TOGETHER_BYTES)
    except InvalidSpec:
        return None


def _shown(text: bytes, start: int, end: int) -> str:
    """The line around a place, as far as it is shown: not what a progress bar has overwritten."""
    begin = max(text.rfind(b"\n", 0, start), text.rfind(b"\r", 0, start)) + 1
    stop = text.find(b"\n", end)
    begin = max(begin, start - _SHOWN_BEFORE_BYTES) if stop - begin > MOST_SHOWN_BYTES or stop < 0 else begin
    shown = text[begin : min(begin + MOST_SHOWN_BYTES, stop if stop >= 0 else len(text))]
    text_shown = _ESCAPED.sub("", shown.decode(errors="replace").replace("\t", " "))
    return "".join(filter(str.isprintable, text_shown)).strip()


def _origin(batches: Sequence[LogBatch], position: int) -> tuple[int, float]:
    """The rank that printed what is at a position of the text, and when it was read."""
    origin = (0, 0.0)
    for batch in batches:
        for chunk in batch.chunks:
            origin = (batch.rank, chunk.at_s)
            position -= len(chunk.data) + 1
            if position < 0:
                return origin
    return origin
