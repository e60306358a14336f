"""Points of a job in one file: CSV, JSON lines or Parquet. It appears under its name when it is complete."""

import csv
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gpuyard.client.series import Point
from gpuyard.contracts.errors import InvalidSpec, Refused

COLUMNS = ("job", "attempt", "rank", "name", "step", "value", "at_s", "seq")
_AT_ONCE = 20_000


class Origin(NamedTuple):
    """Whose points they are."""

    job: str
    attempt: int


Row = tuple[str, int, int, str, float | None, float, float, int]
Write = Callable[[Sequence[Row]], None]


def check(path: Path) -> None:
    """Refuse a file that could not be written, before anything is asked for.

    Raises:
        InvalidSpec: its name has no known ending, or its directory is not there.

    """
    if path.suffix not in _WRITERS:
        raise InvalidSpec(
            f"`{path.name}` has no ending that tells a format", f"End it with {', '.join(_WRITERS)}."
        )
    if not path.parent.is_dir():
        raise InvalidSpec(f"there is no directory `{path.parent}`", "Make it, or choose another.")


async def export(points: AsyncIterator[Point], origin: Origin, path: Path) -> int:
    """Write the points; returns how many.

    Raises:
        Refused: the format needs a package that is not there, or the disk refuses.

    """
    temporary = path.with_name(f".{path.name}.part")
    try:
        with ExitStack() as stack:
            written = await _pour(points, origin, _WRITERS[path.suffix](stack, temporary))
        temporary.replace(path)
    except OSError as error:
        raise Refused(f"`{path}` can't be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return written


async def _pour(points: AsyncIterator[Point], origin: Origin, write: Write) -> int:
    written = 0
    rows: list[Row] = []
    async for point in points:
        rows.append((*origin, point.rank, point.name, point.step, point.value, point.at_s, point.seq))
        if len(rows) == _AT_ONCE:
            write(rows)
            written += len(rows)
            rows = []
    write(rows)
    return written + len(rows)


def _csv(stack: ExitStack, path: Path) -> Write:
    writer = csv.writer(stack.enter_context(path.open("w", newline="")))
    writer.writerow(COLUMNS)
    return writer.writerows


def _jsonl(stack: ExitStack, path: Path) -> Write:
    file = stack.enter_context(path.open("wb"))

    def write(rows: Sequence[Row]) -> None:
        file.writelines(msgspec.json.encode(_json(row)) + b"\n" for row in rows)

    return write


def _json(row: Row) -> dict[str, Any]:
    """JSON has no word for NaN and infinity: text instead."""
    named = dict(zip(COLUMNS, row, strict=True))
    value = row[5]
    return named if math.isfinite(value) else named | {"value": str(value)}


def _parquet(stack: ExitStack, path: Path) -> Write:
    try:
        import pyarrow as pa  # noqa: PLC0415 - only some want it
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise Refused("Parquet needs the package pyarrow", "pip install 'gpuyard[parquet]'") from error
    number, whole = pa.float64(), pa.int64()
    types = (pa.string(), whole, whole, pa.string(), number, number, number, whole)
    schema = pa.schema(list(zip(COLUMNS, types, strict=True)))
    writer = stack.enter_context(parquet.ParquetWriter(path, schema, compression="zstd"))

    def write(rows: Sequence[Row]) -> None:
        columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
        writer.write_table(
            pa.table(
                [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)], schema=schema
            )
        )

    return write


_WRITERS: dict[str, Callable[[ExitStack, Path], Write]] = {
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}
