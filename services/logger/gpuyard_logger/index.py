"""What is stored where: SQLite, one row per part, so that memory does not grow with volume.

It only mirrors the records on the bus. If it is damaged or lost it is made anew from them; so it need not be
careful about power failures, and is not.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import convert

from gpuyard.contracts.segment import Row, Segment
from gpuyard_logger.core.layout import Stream
from gpuyard_logger.core.merge import Size
from gpuyard_logger.core.sequence import START, Position

_SCHEMA = """
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
_THREAD_S = 10.0


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
    """One connection. Threads that read at the same time take one each."""

    def __init__(self, path: Path, *, check: bool = True) -> None:
        """Open; with `check`, begin anew if what is there is no sound index."""
        self._path = path
        try:
            self._db = self._open(check)
        except sqlite3.DatabaseError:
            if not check:
                raise
            _remove(path)
            self._db = self._open(check)

    def _open(self, check: bool) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, isolation_level=None, timeout=_THREAD_S, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.executescript(_SCHEMA)
            ((verdict,),) = db.execute("PRAGMA quick_check(1)") if check else (("ok",),)
        except sqlite3.DatabaseError:
            db.close()
            raise
        if verdict != "ok":
            db.close()
            raise sqlite3.DatabaseError(verdict)
        return db

    def close(self) -> None:
        self._db.close()

    # Change

    def add(self, segment: Segment) -> None:
        """Take in a record; the segments that it replaces are gone."""
        with self._db as db:
            db.execute("BEGIN")
            for replaced in (*segment.replaces, segment.id):
                self._drop(db, replaced)
            db.execute(
                "INSERT INTO segment VALUES (?, ?, ?, ?, ?, ?)",
                (
                    segment.id,
                    segment.partition,
                    segment.holder,
                    segment.size_bytes,
                    segment.sealed_at_s,
                    segment.dropped_bytes,
                ),
            )
            db.executemany(
                f"INSERT INTO part VALUES ({', '.join('?' * (len(_FIELDS) + 1))})",  # noqa: S608
                [(*_fields(row), segment.id) for row in segment.rows],
            )

    def remove(self, segment: str) -> None:
        with self._db as db:
            db.execute("BEGIN")
            self._drop(db, segment)

    def _drop(self, db: sqlite3.Connection, segment: str) -> None:
        db.execute("DELETE FROM part WHERE segment = ?", (segment,))
        db.execute("DELETE FROM segment WHERE id = ?", (segment,))

    # Ask

    def sizes(self, partition: int, holder: str) -> list[Size]:
        """The segments of a partition that this logger holds."""
        found = self._all(
            "SELECT id, sealed_at_s, size_bytes, (SELECT count(*) FROM part WHERE segment = id)"
            " FROM segment WHERE partition = ? AND holder = ?",
            partition,
            holder,
        )
        return [Size(*fields) for fields in found]

    def parts_of(self, segments: Sequence[str]) -> list[Located]:
        """All parts of these segments, those of a stream side by side and in their order."""
        marks = ", ".join("?" * len(segments))
        found = self._all(
            f"SELECT {_ROW}, segment, holder FROM part JOIN segment ON segment.id = part.segment"  # noqa: S608
            f" WHERE segment IN ({marks}) ORDER BY job, attempt, rank, kind, first_seq",
            *segments,
        )
        return [Located(_row(fields[:12]), *fields[12:]) for fields in found]

    def marks(self, partition: int) -> dict[str, Mark]:
        """The segments of a partition, each with what changes about it."""
        found = self._all("SELECT id, holder, dropped_bytes FROM segment WHERE partition = ?", partition)
        return {name: Mark(*mark) for name, *mark in found}

    def held_by(self, holder: str) -> frozenset[str]:
        """The segments that lie with a holder."""
        return frozenset(name for (name,) in self._all("SELECT id FROM segment WHERE holder = ?", holder))

    def attempts(self, job: str) -> Sequence[int]:
        """Attempts of a job that have output, ascending."""
        return [n for (n,) in self._all("SELECT DISTINCT attempt FROM part WHERE job = ? ORDER BY 1", job)]

    def position(self, stream: Stream) -> Position:
        """How far a stream is stored."""
        found = self._all(
            "SELECT max(next_seq), max(ended) FROM part"
            " WHERE job = ? AND attempt = ? AND rank = ? AND kind = ?",
            *stream,
        )
        ((next_seq, ended),) = found
        return START if next_seq is None else Position(next_seq, bool(ended))

    def positions(self, job: str, attempt: int, kind: int) -> Mapping[int, Position]:
        """How far each rank is stored."""
        found = self._all(
            "SELECT rank, max(next_seq), max(ended) FROM part"
            " WHERE job = ? AND attempt = ? AND kind = ? GROUP BY rank",
            job,
            attempt,
            kind,
        )
        return {rank: Position(next_seq, bool(ended)) for rank, next_seq, ended in found}

    def parts(self, stream: Stream, from_seq: int = 0) -> list[Located]:
        """Parts of a stream that hold lines from this one on, in their order."""
        found = self._all(
            f"SELECT {_ROW}, segment, holder FROM part JOIN segment ON segment.id = part.segment"  # noqa: S608
            " WHERE job = ? AND attempt = ? AND rank = ? AND kind = ? AND next_seq > ? ORDER BY first_seq",
            *stream,
            from_seq,
        )
        return [Located(_row(fields[:12]), *fields[12:]) for fields in found]

    def _all(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(self._db.execute(query, values)) as cursor:
            return cursor.fetchall()


def mark_of(segment: Segment) -> Mark:
    return Mark(segment.holder, segment.dropped_bytes)


def _fields(row: Row) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in row.__struct_fields__)


def _row(fields: Sequence[Any]) -> Row:
    return convert((*fields[:-1], bool(fields[-1])), Row)


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
