"""Lines as a Parquet file; the only file that needs pyarrow."""

from collections.abc import Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from gpuyard.contracts.log import LogLine

_NAME = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        pa.field("job", _NAME, nullable=False),
        pa.field("attempt", pa.int32(), nullable=False),
        pa.field("rank", pa.int32(), nullable=False),
        pa.field("stream", _NAME, nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
        pa.field("text", pa.string()),
    ]
)
_GROUP_BYTES = 16 * 1024 * 1024
_LINE_BYTES = 64
_STREAMS = ("out", "err")


class ParquetWriter:
    """Gathers lines until they make a row group; `text` is null where `data` is not UTF-8."""

    def __init__(self, file: BinaryIO) -> None:
        self._writer = pq.ParquetWriter(file, SCHEMA, compression="zstd")
        self._lines: list[LogLine] = []
        self._bytes = 0

    def write(self, lines: Sequence[LogLine]) -> None:
        self._lines += lines
        self._bytes += sum(len(line.text) + _LINE_BYTES for line in lines)
        if self._bytes >= _GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        if self._lines:
            self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        lines, self._lines, self._bytes = self._lines, [], 0
        columns = {
            "job": [line.job for line in lines],
            "attempt": [line.attempt for line in lines],
            "rank": [line.rank for line in lines],
            "stream": [_STREAMS[line.stream] for line in lines],
            "seq": [line.seq for line in lines],
            "at": [round(line.at_s * 1e6) for line in lines],
            "data": [line.text for line in lines],
            "text": [_text(line.text) for line in lines],
        }
        self._writer.write_table(pa.Table.from_pydict(columns, schema=SCHEMA))


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
