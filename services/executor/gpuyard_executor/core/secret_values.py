"""Which values of a rank's environment are secret, and the forms in which they might be printed."""

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from json import dumps
from urllib.parse import quote, quote_plus

LEAST_BYTES = 4
"""Shorter values are not hidden: they stand in half of all lines."""
_LEAST_UNDECLARED = 8
_PIECE_BYTES = 128
_LEAST_ENCODED, _MOST_ENCODED = 8, 4096

_TELLING = re.compile(
    r"(?:^|_)(?:TOKEN|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|(?:API|ACCESS|PRIVATE|AUTH|SECRET)_?KEY)"
    r"(?:_ID)?(?:$|_[0-9]+$)",
    re.IGNORECASE,
)


def secrets_of(env: Mapping[str, str], declared: Iterable[str]) -> dict[str, str]:
    """Secret values by the names of their variables: those declared, and those with a telling name."""
    names = set(declared)
    return {name: value for name, value in env.items() if name in names or _tells(name, value)}


def _tells(name: str, value: str) -> bool:
    is_marker = value.startswith("<") and value.endswith(">")  # PAD_TOKEN=<|endoftext|>
    return len(value) >= _LEAST_UNDECLARED and not is_marker and _TELLING.search(name) is not None


def plain_forms(value: str) -> set[bytes]:
    """The value as it is; one of several lines, line by line; a long one in pieces, one behind the other."""
    lines = (line.strip() for line in value.encode("utf-8", "surrogateescape").splitlines())
    return {piece for line in lines for piece in _pieces(line)}


def encoded_forms(value: str) -> set[bytes]:
    """The value in base64 wherever it begins there, in a URL, and in JSON; none of a very long one."""
    raw = value.encode("utf-8", "surrogateescape")
    if len(raw) > _MOST_ENCODED:
        return set()
    texts = {quote(raw, safe=""), quote_plus(raw), quote(raw), _lower(quote(raw, safe=""))}
    forms = {text.encode() for text in texts}
    forms |= {line.encode() for line in (_json(value, is_ascii=True), _json(value, is_ascii=False))}
    forms |= {core for core in _cores(raw) if len(core) >= _LEAST_ENCODED}
    return {piece for form in forms for piece in _pieces(form)} - plain_forms(value)


def _pieces(form: bytes) -> Iterator[bytes]:
    """A search for long text that repeats itself would take for ever."""
    while len(form) >= 2 * _PIECE_BYTES:
        yield form[:_PIECE_BYTES]
        form = form[_PIECE_BYTES:]
    if len(form) >= LEAST_BYTES:
        yield form


def _json(value: str, *, is_ascii: bool) -> str:
    return dumps(value.encode("utf-8", "surrogateescape").decode(errors="replace"), ensure_ascii=is_ascii)[
        1:-1
    ]


def _lower(quoted: str) -> str:
    return re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), quoted)


def _cores(raw: bytes) -> Iterator[bytes]:
    """Base64 of the value alone; and behind none, one or two other bytes, of which those characters are
    certain that depend on it alone.
    """
    for encode in (b64encode, urlsafe_b64encode):
        yield encode(raw)
        yield encode(raw).rstrip(b"=")
    for before in range(3):
        first = (before * 8 + 5) // 6
        whole = (before + len(raw)) * 8 // 6
        for encode in (b64encode, urlsafe_b64encode):
            yield encode(bytes(before) + raw)[first:whole]
