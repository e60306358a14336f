"""What is stored where: SQLite, one row per part, so that memory does not grow with volume.

It only mirrors the records on the bus: whoever comes to own a partition compares it with them, and if the
file is damaged or lost it is made anew.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from sqlite3 import Connection
from threading import Event
from typing import Any, NamedTuple

from msgspec import ValidationError, convert

from gpuyard.contracts.segment import Row, Segment
from gpuyard_logger.core.layout import Stream
from gpuyard_logger.core.merge import Size
from gpuyard_logger.core.sequence import START, Position
from gpuyard_logger.database import Database

SCHEMA = """
CREATE TABLE IF NOT EXISTS segment (
  id TEXT PRIMARY KEY, partition INTEGER, holder TEXT, size_bytes INTEGER, sealed_at_s REAL,
  dropped_bytes INTEGER
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS part (
  job TEXT, attempt INTEGER, rank INTEGER, kind INTEGER, first_seq INTEGER, next_seq INTEGER,
  first_at_s REAL, last_at_s REAL, offset INTEGER, size_bytes INTEGER, raw_bytes INTEGER, ended INTEGER,
  segment TEXT REFERENCES segment,
  PRIMARY KEY (job, attempt, rank, kind, first_seq, segment)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS part_of_segment ON part (segment);
"""
_FIELDS = Row.__struct_fields__
"""Columns of a part, in the order of the table; the last one there is the segment."""
_ROW = ", ".join(f"part.{name}" for name in _FIELDS)


class Located(NamedTuple):
    """A part, and where to fetch it."""

    row: Row
    segment: str
    holder: str


class Mark(NamedTuple):
    """What changes of a segment under its name: it moves, and jobs in it are dropped."""

    holder: str
    dropped_bytes: int


class Index:
    """One connection. Threads that read at the same time take one each. Any call may raise OSError."""

    def __init__(self, path: Path, damage: Event | None = None) -> None:
        self._db = Database(path, damage)

    def prepare(self) -> None:
        """Make what is missing, and check what is there.

        Raises:
            DamagedIndexError: it is no sound index.

        """
        self._db.prepare(SCHEMA)
        with self._db.change() as db:
            db.execute("DELETE FROM part WHERE segment NOT IN (SELECT id FROM segment)")

    def close(self) -> None:
        self._db.close()

    # Change

    def add(self, segment: Segment) -> None:
        """Take in a record; the segments that it replaces are gone."""
        with self._db.change() as db:
            for replaced in (*segment.replaces, segment.id):
                _drop(db, replaced)
            db.execute("INSERT INTO segment VALUES (?, ?, ?, ?, ?, ?)", _head(segment))
            db.executemany(
                f"INSERT INTO part VALUES ({', '.join('?' * (len(_FIELDS) + 1))})",  # noqa: S608
                [(*_fields(row), segment.id) for row in segment.rows],
            )

    def remove(self, segment: str) -> None:
        with self._db.change() as db:
            _drop(db, segment)

    # Ask

    def sizes(self, partition: int, holder: str) -> list[Size]:
        """The segments of a partition that this logger holds."""
        found = self._db.ask(
            "SELECT id, sealed_at_s, size_bytes, (SELECT count(*) FROM part WHERE segment = id)"
            " FROM segment WHERE partition = ? AND holder = ?",
            partition,
            holder,
        )
        return [Size(*fields) for fields in found]

    def parts_of(self, segments: Sequence[str]) -> list[Located]:
        """All parts of these segments, those of a stream side by side and in their order."""
        marks = ", ".join("?" * len(segments))
        found = self._db.ask(
            f"SELECT {_ROW}, segment, holder FROM part JOIN segment ON segment.id = part.segment"  # noqa: S608
            f" WHERE segment IN ({marks}) ORDER BY job, attempt, rank, kind, first_seq",
            *segments,
        )
        return [self._located(fields) for fields in found]

    def agrees(self, segment: Segment) -> bool:
        """Whether this record is mirrored exactly."""
        heads = self._db.ask("SELECT * FROM segment WHERE id = ?", segment.id)
        rows = self._db.ask(f"SELECT {_ROW} FROM part WHERE segment = ?", segment.id)  # noqa: S608
        return heads == [_head(segment)] and set(rows) == {_fields(row) for row in segment.rows}

    def covers(self, row: Row) -> bool:
        """Whether every line of a part is stored, and the end if it has it."""
        found = self._db.ask(
            "SELECT first_seq, next_seq, ended FROM part"
            " WHERE job = ? AND attempt = ? AND rank = ? AND kind = ? ORDER BY first_seq",
            *_fields(row)[:4],
        )
        covered_seq = row.first_seq
        for first_seq, next_seq, _ in found:
            if first_seq <= covered_seq:
                covered_seq = max(covered_seq, next_seq)
        return covered_seq >= row.next_seq and (not row.ended or any(ended for *_, ended in found))

    def marks(self, partition: int) -> dict[str, Mark]:
        """The segments of a partition, each with what changes about it."""
        found = self._db.ask("SELECT id, holder, dropped_bytes FROM segment WHERE partition = ?", partition)
        return {name: Mark(*mark) for name, *mark in found}

    def held_by(self, holder: str) -> frozenset[str]:
        """The segments that lie with a holder."""
        return frozenset(name for (name,) in self._db.ask("SELECT id FROM segment WHERE holder = ?", holder))

    def attempts(self, job: str) -> Sequence[int]:
        """Attempts of a job that have output, ascending."""
        return [n for (n,) in self._db.ask("SELECT DISTINCT attempt FROM part WHERE job = ? ORDER BY 1", job)]

    def position(self, stream: Stream) -> Position:
        """How far a stream is stored."""
        found = self._db.ask(
            "SELECT max(next_seq), max(ended) FROM part"
            " WHERE job = ? AND attempt = ? AND rank = ? AND kind = ?",
            *stream,
        )
        ((next_seq, ended),) = found
        return START if next_seq is None else Position(next_seq, bool(ended))

    def positions(self, job: str, attempt: int, kind: int) -> Mapping[int, Position]:
        """How far each rank is stored."""
        found = self._db.ask(
            "SELECT rank, max(next_seq), max(ended) FROM part"
            " WHERE job = ? AND attempt = ? AND kind = ? GROUP BY rank",
            job,
            attempt,
            kind,
        )
        return {rank: Position(next_seq, bool(ended)) for rank, next_seq, ended in found}

    def parts(self, stream: Stream, from_seq: int = 0) -> list[Located]:
        """Parts of a stream that hold lines from this one on, in their order."""
        found = self._db.ask(
            f"SELECT {_ROW}, segment, holder FROM part JOIN segment ON segment.id = part.segment"  # noqa: S608
            " WHERE job = ? AND attempt = ? AND rank = ? AND kind = ? AND next_seq > ? ORDER BY first_seq",
            *stream,
            from_seq,
        )
        return [self._located(fields) for fields in found]

    def _located(self, fields: Sequence[Any]) -> Located:
        try:
            return Located(_row(fields[: len(_FIELDS)]), *fields[len(_FIELDS) :])
        except ValidationError as error:
            raise self._db.found_damage(str(error)) from error


def _drop(db: Connection, segment: str) -> None:
    db.execute("DELETE FROM part WHERE segment = ?", (segment,))
    db.execute("DELETE FROM segment WHERE id = ?", (segment,))


def _head(segment: Segment) -> tuple[object, ...]:
    return (
        segment.id,
        segment.partition,
        segment.holder,
        segment.size_bytes,
        segment.sealed_at_s,
        segment.dropped_bytes,
    )


def _fields(row: Row) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in _FIELDS)


def _row(fields: Sequence[Any]) -> Row:
    return convert((*fields[:-1], bool(fields[-1])), Row)
