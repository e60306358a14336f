"""Patterns that users write: RE2, because it takes time linear in the text whatever the pattern.

The syntax is that of Python's `re` without backreferences and lookaround.
"""

from functools import lru_cache
from typing import Any

from gpuyard.contracts.errors import InvalidSpec

MOST_BYTES = 1 << 20
"""Memory that a compiled pattern may take."""


@lru_cache(maxsize=512)
def compiled(pattern: str) -> Any:
    """A pattern, ready for `search`.

    Raises:
        InvalidSpec: it is none; says why.

    """
    return _compile(pattern, pattern, max_bytes=MOST_BYTES)


@lru_cache(maxsize=512)
def compiled_for_lines(pattern: str, max_bytes: int = MOST_BYTES) -> Any:
    """A pattern over the bytes of many lines at once: a match never goes beyond its line.

    Raises:
        InvalidSpec: it is none, or would match a line without any text; says why.

    """
    raw = b"(?m)" + pattern.encode("utf-8", "surrogateescape")
    found = _compile(raw, pattern, max_bytes=max_bytes, encoding="LATIN1", never_nl=True)
    if found.search(b"") is not None:
        raise InvalidSpec(f"the pattern `{pattern[:200]}` matches every line", "Name some text of the line.")
    return found


def _compile(
    pattern: Any, shown: str, *, max_bytes: int, encoding: str = "UTF8", never_nl: bool = False
) -> Any:
    import re2  # noqa: PLC0415 - few messages hold patterns, and loading it takes a while

    options = re2.Options()
    options.log_errors = False
    options.max_mem = max_bytes
    options.encoding = getattr(re2.Options.Encoding, encoding)
    options.never_nl = never_nl
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidSpec(
            f"the pattern `{shown[:200]}` can't be used: {_why(error)}",
            "It is RE2: as in Python, without lookaround and backreferences.",
        ) from error


def _why(error: Exception) -> str:
    reason = error.args[0] if error.args else error
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
