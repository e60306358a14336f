"""Private keys of several lines: hidden from their first line to their last, wherever output is cut.

Whether a stream stands inside a key is part of its position, so that a batch can be made again after a crash.
A first line without a key behind it hides nothing else: the first line that can't be of a key ends it.
"""

import re

BEGIN = "-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_BEGIN = re.compile(BEGIN.encode())
_END = re.compile(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BODY = re.compile(
    rb"[ \t]*(?:(?:Proc-Type|DEK-Info|Version|Comment): .*)?"
    rb"|[ \t>|\"']*=?(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?[\\nr\"', \t]*"
    rb"|.*[ :|>\"'][A-Za-z0-9+/]{40,}={0,2}[\\nr\"', \t]*"
)
"""Headers and base64, perhaps behind what a logging library puts before each line."""


def hide_keys(data: bytes, mark: bytes, *, is_inside: bool) -> tuple[bytes, bool]:
    """Put the mark in place of what is key in each line; tell whether the key goes on behind.

    The number of lines stays.
    """
    lines = data.split(b"\n")
    rest = lines.pop()
    for number, line in enumerate(lines):
        lines[number], is_inside = _hide(line, mark, is_inside=is_inside)
    if rest:
        rest, is_inside = _hide(rest, mark, is_inside=is_inside)
    return b"\n".join((*lines, rest)), is_inside


def _hide(line: bytes, mark: bytes, *, is_inside: bool) -> tuple[bytes, bool]:
    """One line without its newline."""
    if is_inside:
        if end := _END.search(line):
            rest, is_inside = _hide(line[end.end() :], mark, is_inside=False)
            return mark + rest, is_inside
        if _BODY.fullmatch(line.rstrip(b"\r")):
            return (mark if line.strip() else line), True
    begin = _BEGIN.search(line)
    if begin is None:
        return line, False
    head, rest = line[: begin.start()], line[begin.end() :]
    if end := _END.search(rest):
        rest, is_inside = _hide(rest[end.end() :], mark, is_inside=False)
        return head + mark + rest, is_inside
    return head + mark, True
