"""A job's whole output in one file: all attempts and ranks, nothing left out, nothing changed.

Text need not be UTF-8. `plain` has it as it was printed; `jsonl` has what is not UTF-8 in base64; `parquet`
has the bytes of every line, and beside them the text of those that are UTF-8.
"""

import asyncio
import os
import secrets
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, Protocol

import msgspec

from gpuyard.bus.port import Bus
from gpuyard.client.follow import Groups, Notice, printed
from gpuyard.contracts.errors import InvalidSpec, Refused
from gpuyard.contracts.job import Job
from gpuyard.contracts.log import LogLine

Format = Literal["plain", "jsonl", "parquet"]
FORMATS: tuple[Format, ...] = ("plain", "jsonl", "parquet")
STREAMS = ("out", "err")
_json = msgspec.json.Encoder().encode


class Exported(NamedTuple):
    """How much was written so far."""

    lines: int
    text_bytes: int


Progress = Callable[[Exported], None]


def say_nothing(_so_far: Exported) -> None:
    """A progress nobody watches."""


class Writer(Protocol):
    """Makes the file of lines."""

    def write(self, lines: Sequence[LogLine]) -> None: ...

    def close(self) -> None: ...


async def export(
    bus: Bus,
    job: Job,
    path: Path,
    format: Format,  # noqa: A002 - the word of the command line
    *,
    progress: Progress,
    notice: Notice,
) -> Exported:
    """Write all attempts of a job, those of one merged by time.

    Columns are job (not in `plain`), attempt, rank, stream, seq (number of the line in its rank), time, text.

    Raises:
        InvalidSpec: there is no such format.
        Refused: the file can't be written, or what the format needs is not installed.
        Unavailable: no logger answers.

    """
    exported = Exported(0, 0)
    with _appearing(path) as file:
        writer = _writer(format, file)
        async with aclosing(_groups(bus, job, notice)) as groups:
            async for lines in groups:
                await asyncio.to_thread(writer.write, lines)
                text_bytes = sum(len(line.text) + 1 for line in lines)
                exported = Exported(exported.lines + len(lines), exported.text_bytes + text_bytes)
                progress(exported)
        await asyncio.to_thread(writer.close)
    return exported


async def _groups(bus: Bus, job: Job, notice: Notice) -> Groups:
    for attempt in range(1, job.attempt + 1):
        groups = printed(bus, job.id, attempt, expected_ranks=job.spec.rank_count, notice=notice)
        async with aclosing(groups):
            async for lines in groups:
                if lines:
                    yield lines


@contextmanager
def _appearing(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name when it is whole and on disk."""
    hidden = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}.part")
    try:
        with hidden.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        hidden.replace(path)
    except OSError as error:
        raise Refused(
            f"{path} can't be written: {error.strerror or error}", "Choose another place, or make room."
        ) from error
    finally:
        hidden.unlink(missing_ok=True)


def _writer(format: Format, file: BinaryIO) -> Writer:  # noqa: A002 - the word of the command line
    if format == "parquet":
        return _parquet_writer(file)
    if format not in FORMATS:
        raise InvalidSpec(f"`{format}` is no format of an export", f"Choose one of {', '.join(FORMATS)}.")
    return TextWriter(file, plain_row if format == "plain" else json_row)


def _parquet_writer(file: BinaryIO) -> Writer:
    try:
        from gpuyard.client.parquet import ParquetWriter  # noqa: PLC0415 - it needs an extra
    except ModuleNotFoundError as error:
        raise Refused(
            f"parquet needs {error.name}, which is not installed", "Run: pip install 'gpuyard[parquet]'"
        ) from error
    return ParquetWriter(file)


class TextWriter:
    """One row for each line."""

    def __init__(self, file: BinaryIO, row: Callable[[LogLine], bytes]) -> None:
        self._file = file
        self._row = row

    def write(self, lines: Sequence[LogLine]) -> None:
        self._file.write(b"".join(map(self._row, lines)))

    def close(self) -> None:
        """Nothing is kept back."""


def plain_row(line: LogLine) -> bytes:
    """Columns with tabs between; the last one is the text, whatever is in it."""
    head = (line.attempt, line.rank, STREAMS[line.stream].encode(), line.seq, _time(line.at_s))
    return b"%d\t%d\t%s\t%d\t%s\t" % head + line.text + b"\n"


def json_row(line: LogLine) -> bytes:
    """An object; `text_base64` instead of `text` if that is not UTF-8."""
    row: dict[str, object] = {
        "job": line.job,
        "attempt": line.attempt,
        "rank": line.rank,
        "stream": STREAMS[line.stream],
        "seq": line.seq,
        "at_s": line.at_s,
    }
    try:
        row["text"] = line.text.decode()
    except UnicodeDecodeError:
        row["text_base64"] = b64encode(line.text).decode()
    return _json(row) + b"\n"


@lru_cache(1024)
def _time(at_s: float) -> bytes:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="microseconds").encode()
