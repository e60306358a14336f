"""What may travel: subjects, wildcards, headers, sizes. Both buses keep these rules.

They are checked here, before anything is sent, because the server answers a breach by closing the connection.
"""

import math
import re
from collections.abc import Mapping

from gpuyard.contracts.errors import InvalidSpec

MAX_PAYLOAD_BYTES = 1024 * 1024
DUPLICATE_WINDOW_S = 120.0

_MAX_SUBJECT_CHARS = 1024
_SUBJECT = re.compile(r"[^\s.*>\x00]+(?:\.[^\s.*>\x00]+)*")
_PATTERN = re.compile(r"(?:[^\s.*>\x00]+|\*)(?:\.(?:[^\s.*>\x00]+|\*))*(?:\.>)?|>")
_HEADER_KEY = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_LINE = b"NATS/1.0"


def check_subject(subject: str) -> None:
    """Refuse a subject that nothing can be sent to.

    Raises:
        InvalidSpec: empty, too long, with blanks, wildcards or empty tokens.

    """
    if len(subject) > _MAX_SUBJECT_CHARS or not _SUBJECT.fullmatch(subject):
        raise InvalidSpec(f"`{subject[:80]}` is not a subject", "Tokens of plain characters, joined by dots.")


def check_pattern(pattern: str) -> None:
    """Refuse a subject, wildcards allowed, that nobody can listen to.

    Raises:
        InvalidSpec: as for `check_subject`, or a wildcard in the wrong place.

    """
    if len(pattern) > _MAX_SUBJECT_CHARS or not _PATTERN.fullmatch(pattern):
        raise InvalidSpec(f"`{pattern[:80]}` is not a subject", "`*` is one token, `>` the rest.")


def matches(pattern: str, subject: str) -> bool:
    """Tell whether a subject belongs to a pattern: `*` is one token, a final `>` one or more."""
    if pattern == subject:
        return True
    wanted, given = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted.pop()
        if len(given) <= len(wanted):
            return False
    elif len(given) != len(wanted):
        return False
    return all(token in ("*", other) for token, other in zip(wanted, given, strict=False))


def render_headers(headers: Mapping[str, str] | None) -> bytes:
    """Write a header block; none for no headers.

    Raises:
        InvalidSpec: a key that is no token, or a line break in a value.

    """
    if not headers:
        return b""
    lines = [_HEADER_LINE]
    for key, value in headers.items():
        if not _HEADER_KEY.fullmatch(key) or "\r" in value or "\n" in value:
            raise InvalidSpec(f"header `{key[:80]}` can't be sent", "Plain keys; values of one line.")
        lines.append(f"{key}: {value}".encode())
    return b"\r\n".join(lines) + b"\r\n\r\n"


def parse_headers(block: bytes) -> tuple[str, dict[str, str]]:
    """Read a header block: status (`404`, empty if none) and headers."""
    first, _, rest = block.partition(b"\r\n")
    headers = {}
    for line in rest.split(b"\r\n"):
        key, colon, value = line.partition(b":")
        if colon:
            headers[key.decode("ascii", "replace")] = value.strip().decode("utf-8", "replace")
    return first[len(_HEADER_LINE) :].strip()[:3].decode("ascii", "replace"), headers


def check_size(header_block: bytes, payload: bytes, most_bytes: int = MAX_PAYLOAD_BYTES) -> None:
    """Refuse a message that the server would answer by closing the connection.

    Raises:
        InvalidSpec: headers and payload together are larger than the server takes.

    """
    size_bytes = len(header_block) + len(payload)
    if size_bytes > most_bytes:
        raise InvalidSpec(
            f"a message of {size_bytes:,} bytes; the bus takes {most_bytes:,}",
            "Send it in parts, or put it into the object store.",
        )


def whole_ttl_s(ttl_s: float) -> int:
    """A time to live as the server takes it: whole seconds, at least one."""
    return max(1, math.ceil(ttl_s))


def publish_command(subject: str, payload: bytes, header_block: bytes = b"", reply: str = "") -> bytes:
    """The protocol line and body that publish a message."""
    if not header_block:
        return f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n"
    size = len(header_block)
    start = f"HPUB {subject} {reply} {size} {size + len(payload)}\r\n".encode()
    return start + header_block + payload + b"\r\n"
