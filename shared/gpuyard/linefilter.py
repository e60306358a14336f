"""Which lines a reader wants: by stream, time and text, with lines around a match.

Loggers apply it to what is stored, clients to what comes live, so that both agree on every line. Patterns
are RE2's: searching takes time proportional to the text, whatever the pattern, and other threads go on
meanwhile.
"""

from typing import NamedTuple


class Filter(NamedTuple):
    """What to look for; see LogQuery."""

    stream: int | None = None
    since_s: float | None = None
    until_s: float | None = None
    grep: str = ""
    ignore_case: bool = False
    context: int = 0
