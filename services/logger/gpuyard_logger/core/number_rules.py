"""Which numbers a line holds: the forms in which training programs print them.

Three kinds of places are read. *Pairs*: a name and a number behind `=` or `:`, or behind a space where the
name is a well-known one. *Counts*: `10/100` beside a known number. *Bars*: as tqdm draws them. Numbers that
are parts of something else (times, addresses, versions, paths, command lines) are not taken.
Cost: a few microseconds for a line; linear in its length.
"""

import re
from collections.abc import Iterator

from gpuyard.contracts.series import PROGRESS, STEP, Number
from gpuyard_logger.core.number_names import Name, name_of

MAX_LINE_BYTES = 4096
MAX_NUMBERS = 64

_NUMBER = (
    rb"[-+]?(?:\d{1,3}(?:,\d{3})++|\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d{1,3})?+|[-+]?(?:nan|inf(?:inity)?)"
)
_UNIT = (
    rb"%|m?s(?:/\w{2,5})?|secs?|min|h|[kmgt]i?b(?:it)?(?:/s)?|[kmgt]"
    rb"|(?:it|[a-z]{3,8})/s(?:ec)?|t?flop/?s?|[wcx]"
)
_END = rb"(?=[\s,;|)\]}\"'<>]|[.:](?:\s|$)|/[a-z]|$)"
_PAIR = re.compile(
    rb"(?<![\w.@-])(?<!\D/)"
    rb"(?P<name>[a-z_][\w./@-]{0,47}+(?:[ ][a-z_][\w./@-]{0,47}+){0,3}+)"
    rb"(?P<quote>[\"']?)(?:[ ]?\([\w/%]{1,12}\))?+"
    rb"(?P<gap>[ \t]{0,16}(?:[:=][ \t]{0,16}|[ \t]))"
    rb"(?:tensor\(|(?:np\.)?float\d\d\(|[\[(\"' ]{0,12})"
    rb"(?P<value>" + _NUMBER + rb")"
    rb"(?:[ ]{0,4}/[ ]{0,12}(?P<total>\d{1,15}+))?"
    rb"(?P<unit>[ ]?(?:"
    + _UNIT
    + rb"))?"
    + _END
    # A count without a name.
    + rb"|(?<![\w.:/,-])(?P<at>\d{1,15}+)[ ]{0,4}/[ ]{0,12}(?P<of>\d{1,15}+)(?=[\s\]),;(|]|$)",
    re.IGNORECASE,
)
_BAR = re.compile(
    rb"\d{1,3}%(?:\|[^|]*+\|)?[ ]{0,8}(?P<at>\d{1,15})/(?P<of>\d{1,15})[ ]{0,8}"
    rb"\[[\d:]{1,12}<[\d:?]{1,12}(?: days?, [\d:]{1,12})?"
    rb"(?:,[ ]{0,4}(?P<speed>[\d.]{1,12})(?P<unit>it/s|s/it))?"
)
_OTHER_WORK = re.compile(
    rb"\b(?:val|test|eval|predict|infer|download|upload|load|map|filter|generat|sanity|check|token|process|extract|"
    rb"class|cach|scan|sav|fetch|creat|convert|sampl)",
    re.IGNORECASE,
)
_KERAS = re.compile(rb"\s*(?P<at>\d{1,15})/(?P<of>\d{1,15})\s+(?:\[[=>.]|\xe2\x94)")
_ENDS_FIELD = re.compile(rb"\s*(?:$|[,;|)\]}(-]|\s\s|\t)|\s\s")
"""Prose goes on with a word; a field does not."""
_COLOUR = re.compile(rb"\x1b\[[0-9;:?]*[A-Za-z]")
_REDRAW = re.compile(rb"[\r\x08]+")


def last_state(line: bytes, *, is_whole: bool = True) -> bytes:
    """What a line that redraws itself shows in the end, without colours.

    Args:
        line: Without its newline.
        is_whole: It goes on in the next batch otherwise: then its last state may be cut, and the one before
            counts if there is one.

    """
    if b"\r" in line or b"\x08" in line:
        states = [state for state in _REDRAW.split(line) if not state.isspace() and state]
        if not states:
            return b""
        line = states[-1] if is_whole or len(states) == 1 else states[-2]
    return _COLOUR.sub(b"", line) if b"\x1b" in line else line


def parse_line(line: bytes) -> list[Number]:
    """The numbers in a line, each name once: the first mention counts.

    Args:
        line: As `last_state` leaves it.

    """
    if len(line) > MAX_LINE_BYTES:
        return []
    found: dict[str, Number] = {}
    for number in _numbers(line):
        # A counter with a total says more than one without.
        if number.name not in found or (found[number.name].total is None and number.total is not None):
            found[number.name] = number
        if len(found) == MAX_NUMBERS:
            break
    return list(found.values())


def _numbers(line: bytes) -> Iterator[Number]:
    bar = _BAR.search(line) if b"%" in line and b"<" in line else None
    if bar is not None:
        title = line[: bar.start()]
        is_training = not _OTHER_WORK.search(title)
        if is_training:
            yield from _bar(bar)
        line = title * is_training + line[bar.end() :]
    elif keras := _KERAS.match(line):
        yield _count(keras)
    yield from _pairs(line)


def _bar(bar: "re.Match[bytes]") -> Iterator[Number]:
    yield _count(bar)
    speed = float(bar["speed"] or 0)
    if speed:
        yield Number("it/s", speed if bar["unit"] == b"it/s" else 1.0 / speed)


def _pairs(line: bytes) -> Iterator[Number]:
    counts: list[Number] = []
    has_known = False
    for match in _PAIR.finditer(line):
        words, value = match.group("name", "value")
        if words is None:
            counts.append(_count(match))
        elif (name := name_of(words)) and _is_meant(name, match):
            number = _number(name, float(value.replace(b",", b"")), match)
            if number is not None:
                has_known = has_known or name.is_known
                yield number
    if has_known:
        yield from counts[:1]


def _count(match: "re.Match[bytes]") -> Number:
    return Number(STEP, float(match["at"]), float(match["of"]))


def _number(name: Name, value: float, match: "re.Match[bytes]") -> Number | None:
    total = float(match["total"]) if match["total"] else None
    if name.is_counter:
        return Number(name.text, value, total) if _can_count(name.text, value, match) else None
    if total and name.is_quotient:
        return Number(name.text, value / total)
    if name.text == PROGRESS and match["unit"] and b"%" in match["unit"]:
        return Number(name.text, value, 100.0)
    return Number(name.text, value, total)


def _can_count(name: str, value: float, match: "re.Match[bytes]") -> bool:
    """Whether it is a place on a way: no step lasts 12.5, and `batch: 64` tells a size."""
    is_size = match["name"].lower().endswith(b"batch") and match["gap"].strip() and not match["total"]
    return value >= 0 and (name != STEP or (value.is_integer() and not is_size))


def _is_meant(name: Name, match: "re.Match[bytes]") -> bool:
    """Whether this is a name and its number, rather than prose or an address."""
    if name.is_known:
        return True
    gap = match["gap"]
    if b":" not in gap:
        return b"=" in gap
    return bool(match["quote"]) or (gap != b":" and _ENDS_FIELD.match(match.string, match.end()) is not None)
