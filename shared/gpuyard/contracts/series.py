"""Series: the numbers found in a rank's lines, and questions about them.

They are stored as rows, one for each line that held numbers, as text: the line's number, then
`name=value` or `name=value/total`, with tabs between. So they are sealed, merged and dropped like lines.
"""

import math
from collections.abc import Iterable
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from gpuyard.contracts.hardware import Seconds
from gpuyard.contracts.ids import JobId
from gpuyard.contracts.log import Rank

STEP, EPOCH, PROGRESS = "step", "epoch", "progress"
"""Names of the numbers that tell how far a job is, whatever the program calls them."""
NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_./@%-]{0,63}$(?!\n)"
_EXACT = 2**53

RowCursor = tuple[tuple[Rank, Annotated[int, Meta(ge=0, description="Number of a row in its rank.")]], ...]


class Number(NamedTuple):
    """A number as a line shows it. `total`: where it is going to end, as in `step 10/100`."""

    name: str
    value: float
    total: float | None = None


class NumberRow(NamedTuple):
    """All numbers of one line."""

    seq: int
    at_s: float
    numbers: tuple[Number, ...]


class SeriesChunk(Struct, frozen=True, array_like=True):
    """Rows of one rank that were printed at one moment, each with its newline."""

    rank: Rank
    at_s: Seconds
    rows: bytes


class SeriesQuery(Struct, frozen=True):
    """Give me the numbers that were found in a job's lines."""

    job: JobId
    attempt: Annotated[int, Meta(ge=1, description="Default: the newest stored.")] | None = None
    ranks: Annotated[tuple[Rank, ...] | None, Meta(description="Default: all.")] = None
    after: Annotated[RowCursor, Meta(description="For each rank, the first row wanted; missing: 0.")] = ()
    tail: Annotated[int, Meta(ge=0, description="Only the last so many rows of each rank.")] | None = None
    max_bytes: Annotated[int, Meta(ge=1, le=524288, description="The page ends once it is so large.")] = (
        262144
    )


class SeriesPage(Struct, frozen=True, tag="series", tag_field="type"):
    """Stored rows, rank after rank. When `complete`, everything stored was given."""

    attempt: Annotated[int, Meta(ge=0, description="0: nothing is stored yet.")]
    chunks: tuple[SeriesChunk, ...] = ()
    next: Annotated[RowCursor, Meta(description="What to give as `after` to go on.")] = ()
    complete: bool = True


def render_row(seq: int, numbers: Iterable[Number]) -> bytes:
    """A row as it is stored, with its newline."""
    return "\t".join((str(seq), *map(_rendered, numbers))).encode() + b"\n"


def parse_rows(chunk: SeriesChunk) -> list[NumberRow]:
    """The rows of a chunk."""
    return [_parsed(line, chunk.at_s) for line in chunk.rows.decode().splitlines()]


def _rendered(number: Number) -> str:
    total = "" if number.total is None else f"/{_text(number.total)}"
    return f"{number.name}={_text(number.value)}{total}"


def _text(value: float) -> str:
    is_whole = math.isfinite(value) and value % 1 == 0 and abs(value) < _EXACT
    return str(int(value)) if is_whole else repr(value)


def _parsed(line: str, at_s: float) -> NumberRow:
    seq, *fields = line.split("\t")
    return NumberRow(int(seq), at_s, tuple(_number(field) for field in fields))


def _number(field: str) -> Number:
    name, _, rest = field.partition("=")
    value, _, total = rest.partition("/")
    return Number(name, float(value), float(total) if total else None)
