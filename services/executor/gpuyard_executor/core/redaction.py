"""Hides secrets in output before it leaves the node: `[redacted:NAME]` stands where one was.

Works on whole lines, or on pieces of long ones, cut where `parts_secret` allows it. What comes out
depends on nothing but the lines and the position before them: a batch is the same when it is made again.
One pass over the text tells whether there is anything to hide; nearly always there is not.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from gpuyard.contracts.log import LogChunk
from gpuyard.contracts.pattern import compiled_for_lines
from gpuyard_executor.core.key_block import BEGIN, hide_keys
from gpuyard_executor.core.key_shapes import OPEN, SHAPES
from gpuyard_executor.core.secret_values import encoded_forms, plain_forms

_MOST_GROWTH_BYTES = 65536
"""Marks may be longer than what they hide. If they add more than this, shorter ones stand there."""
_SHORT = b"*"
_COMPILED_BYTES = 8 << 20
_COMPILED_BYTES_PER_BYTE = 256
_TAIL_BYTES = 2048

_Mark = Callable[[str], bytes]

_SOME_SHAPE = "|".join(shape.pattern.replace("?P<secret>", "?:") for shape in SHAPES)
_ANY_SHAPE, _BEGIN = compiled_for_lines(_SOME_SHAPE), compiled_for_lines(BEGIN)
_SHAPES = tuple((shape.name, compiled_for_lines(shape.pattern)) for shape in SHAPES)
_OPEN = compiled_for_lines(OPEN)


class Redacted(NamedTuple):
    """What may be seen, and which streams end inside a private key: 1 output, 2 errors, 3 both."""

    chunks: tuple[LogChunk, ...]
    inside_key: int


class Redactor:
    """Hides these values, and keys by their shape.

    Args:
        secrets: Values by name; the name is shown in place of the value.

    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._plain = _by_form(secrets, plain_forms)
        self._names = _by_form(secrets, encoded_forms) | self._plain
        some = _alternatives(self._names)
        self._any = _compiled("|".join((*some, _SOME_SHAPE, BEGIN)))
        self._one: Any = _compiled("|".join(some)) if some else None
        self._run: Any = _compiled(f"(?:{'|'.join(some)})+") if some else None

    def redact(self, chunks: tuple[LogChunk, ...], inside_key: int) -> Redacted:
        """Hide what is secret; each chunk keeps its number of lines."""
        text = b"".join(chunk.data for chunk in chunks)
        if not inside_key and self._any.search(text) is None:
            return Redacted(chunks, 0)
        redacted = self._redact(chunks, inside_key, _mark)
        if sum(len(chunk.data) for chunk in redacted.chunks) > len(text) + _MOST_GROWTH_BYTES:
            return self._redact(chunks, inside_key, _short_mark)
        return redacted

    def parts_secret(self, text: bytes) -> bool:
        """Whether a secret may begin at the end of this text and go on behind it."""
        return _OPEN.search(text[-_TAIL_BYTES:]) is not None or any(
            text.endswith(form[:length]) for form in self._plain for length in range(1, len(form))
        )

    def _redact(self, chunks: Sequence[LogChunk], inside_key: int, mark: _Mark) -> Redacted:
        inside = [bool(inside_key & 1), bool(inside_key & 2)]
        redacted = []
        for chunk in chunks:
            data, was_inside = chunk.data, inside[chunk.stream]
            if was_inside or _BEGIN.search(data):
                data, inside[chunk.stream] = hide_keys(data, mark("private-key"), is_inside=was_inside)
            redacted.append(replace(chunk, data=b"".join(self._hidden(data, mark))))
        return Redacted(tuple(redacted), inside[0] + 2 * inside[1])

    def _hidden(self, data: bytes, mark: _Mark) -> Iterator[bytes]:
        """The data in pieces; lines that hold something secret are looked at closely."""
        done = 0
        while found := self._any.search(data, done):
            begin = data.rfind(b"\n", 0, found.end()) + 1
            end = data.find(b"\n", found.end()) + 1 or len(data)
            yield data[done:begin]
            yield self._hide(data[begin:end], mark)
            done = end
        yield data[done:]

    def _hide(self, line: bytes, mark: _Mark) -> bytes:
        if self._run:
            line = self._run.sub(lambda found: mark(self._name(found[0])), line)
        if _ANY_SHAPE.search(line):
            for name, pattern in _SHAPES:
                line = pattern.sub(partial(_hide_group, mark(name)), line)
        return line

    def _name(self, run: bytes) -> str:
        """Of one value behind the other, the first one's name."""
        return self._names[self._one.match(run)[0]]


def _hide_group(mark: bytes, found: Any) -> bytes:
    whole, at = found[0], found.start()
    begin, end = (position - at for position in found.span(1))
    return bytes(whole[:begin] + mark + whole[end:])


def _by_form(secrets: Mapping[str, str], forms: Callable[[str], Iterable[bytes]]) -> dict[bytes, str]:
    return {form: name for name, value in sorted(secrets.items()) for form in forms(value)}


def _alternatives(forms: Iterable[bytes]) -> list[str]:
    """Patterns of these forms, the longest first: it is the one to be found where several begin."""
    return ["".join(f"\\x{byte:02x}" for byte in form) for form in sorted(forms, key=len, reverse=True)]


def _compiled(pattern: str) -> Any:
    return compiled_for_lines(pattern, _COMPILED_BYTES + _COMPILED_BYTES_PER_BYTE * len(pattern))


def _mark(name: str) -> bytes:
    return f"[redacted:{name[:64]}]".encode()


def _short_mark(_name: str) -> bytes:
    return _SHORT
