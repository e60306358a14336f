"""Telling where a regular expression is wrong. Pure."""

import re

from gpuyard.contracts.errors import InvalidSpec
from gpuyard.linefilter import pattern_of

MOST_CHARACTERS = 1024


def check_regex(text: str, *, ignore_case: bool) -> None:
    """Refuse what is no regular expression, and point at the place.

    Raises:
        InvalidSpec: as said.

    """
    if not text:
        raise InvalidSpec("--grep has nothing to look for", "Leave it out to see every line.")
    if len(text) > MOST_CHARACTERS:
        raise InvalidSpec(f"--grep is longer than {MOST_CHARACTERS} characters")
    try:
        pattern_of(text, ignore_case)
    except InvalidSpec as error:
        position = _position(text, error.message)
        if position is None or "\n" in text:
            raise
        pointer = f"  {text}\n  {' ' * position}^"
        raise InvalidSpec(
            f"--grep: {error.message}\n{pointer}", error.hint, pattern=text, position=position
        ) from error


def _position(text: str, message: str) -> int | None:
    """Where it is wrong. Python's parser knows it for what it does not know either."""
    try:
        re.compile(text)
    except re.error as error:
        return error.pos
    _, _, fragment = message.rpartition(": ")
    return text.find(fragment) if fragment and fragment in text else None
