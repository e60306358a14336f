"""What the index knows of keeping: pinned jobs, dropped ones, and those known to have ended.

Lies in the same file as the rest of the index, and is as disposable: pins and drops are on the bus.
"""

from collections.abc import Collection, Iterable
from pathlib import Path
from threading import Event
from typing import NamedTuple

from msgspec import json

from gpuyard.contracts.segment import Dropped
from gpuyard_logger.core.retention import Output
from gpuyard_logger.database import Database

_TABLES = (
    "pin (job TEXT PRIMARY KEY, partition INTEGER)",
    "dropped (job TEXT PRIMARY KEY, partition INTEGER, at_s REAL, why TEXT)",
    "ended (job TEXT PRIMARY KEY, at_s REAL, labels BLOB)",
)
_AT_ONCE = 500
"""Values in one question; SQLite has a limit."""


class Ended(NamedTuple):
    """A job that has ended: when, and what it was labelled."""

    at_s: float
    labels: dict[str, str]


class Held(NamedTuple):
    """What lies with a logger, by its records."""

    file_bytes: int
    dropped_bytes: int
    """What of the files is of jobs that were dropped."""


class KeepIndex:
    """One connection. Any call may raise OSError."""

    def __init__(self, path: Path, damage: Event | None = None) -> None:
        self._db = Database(path, damage)

    def prepare(self) -> None:
        """Make what is missing."""
        with self._db.change() as db:
            for table in _TABLES:
                db.execute(f"CREATE TABLE IF NOT EXISTS {table} WITHOUT ROWID")

    def close(self) -> None:
        self._db.close()

    # Change

    def mirror(self, partition: int, pins: Iterable[str], dropped: Iterable[Dropped]) -> None:
        """Take what the bus says of a partition for all there is."""
        with self._db.change() as db:
            db.execute("DELETE FROM pin WHERE partition = ?", (partition,))
            db.execute("DELETE FROM dropped WHERE partition = ?", (partition,))
            db.executemany("INSERT INTO pin VALUES (?, ?)", [(job, partition) for job in pins])
            rows = [(each.job, partition, each.at_s, each.why) for each in dropped]
            db.executemany("INSERT INTO dropped VALUES (?, ?, ?, ?)", rows)

    def pin(self, partition: int, job: str) -> None:
        with self._db.change() as db:
            db.execute("INSERT OR REPLACE INTO pin VALUES (?, ?)", (job, partition))

    def unpin(self, job: str) -> None:
        with self._db.change() as db:
            db.execute("DELETE FROM pin WHERE job = ?", (job,))

    def drop(self, partition: int, dropped: Dropped) -> None:
        row = (dropped.job, partition, dropped.at_s, dropped.why)
        with self._db.change() as db:
            db.execute("INSERT OR REPLACE INTO dropped VALUES (?, ?, ?, ?)", row)
            db.execute("DELETE FROM ended WHERE job = ?", (dropped.job,))

    def end(self, job: str, ended: Ended) -> None:
        row = (job, ended.at_s, json.encode(ended.labels))
        with self._db.change() as db:
            db.execute("INSERT OR REPLACE INTO ended VALUES (?, ?, ?)", row)

    # Ask

    def is_pinned(self, job: str) -> bool:
        return bool(self._db.ask("SELECT 1 FROM pin WHERE job = ?", job))

    def dropped(self, job: str) -> Dropped | None:
        found = self._db.ask("SELECT job, at_s, why FROM dropped WHERE job = ?", job)
        return Dropped(*found[0]) if found else None

    def uncleared(self, partition: int) -> list[str]:
        """Dropped jobs that still have parts from before they were dropped."""
        found = self._db.ask(
            "SELECT DISTINCT job FROM dropped JOIN part USING (job)"
            " WHERE dropped.partition = ? AND part.last_at_s <= dropped.at_s",
            partition,
        )
        return [job for (job,) in found]

    def outputs(self, partition: int, holder: str) -> list[Output]:
        """All stored output of a partition, by job."""
        found = self._db.ask(
            "SELECT part.job, max(last_at_s), sum(part.size_bytes),"
            " sum(CASE WHEN segment.holder = ? THEN part.size_bytes ELSE 0 END),"
            " pin.job IS NOT NULL, ended.at_s, ended.labels"
            " FROM part JOIN segment ON segment.id = part.segment"
            " LEFT JOIN pin ON pin.job = part.job LEFT JOIN ended ON ended.job = part.job"
            " WHERE segment.partition = ? GROUP BY part.job",
            holder,
            partition,
        )
        return [
            Output(job, last_at_s, size_bytes, local_bytes, bool(pinned), at_s, json.decode(labels or b"{}"))
            for job, last_at_s, size_bytes, local_bytes, pinned, at_s, labels in found
        ]

    def segments_of(self, jobs: Collection[str]) -> list[str]:
        """Segments that hold output of any of these jobs."""
        segments: set[str] = set()
        ordered = sorted(jobs)
        for start in range(0, len(ordered), _AT_ONCE):
            some = ordered[start : start + _AT_ONCE]
            marks = ", ".join("?" * len(some))
            found = self._db.ask(f"SELECT DISTINCT segment FROM part WHERE job IN ({marks})", *some)  # noqa: S608
            segments.update(segment for (segment,) in found)
        return sorted(segments)

    def sparse(self, partition: int, holder: str, share: float) -> str | None:
        """The segment with the largest share of dropped bytes, if that is more than `share`."""
        found = self._db.ask(
            "SELECT id FROM segment WHERE partition = ? AND holder = ? AND dropped_bytes > ? * size_bytes"
            " ORDER BY 1.0 * dropped_bytes / size_bytes DESC LIMIT 1",
            partition,
            holder,
            share,
        )
        return found[0][0] if found else None

    def held(self, holder: str) -> Held:
        """What lies with a logger."""
        question = "SELECT total(size_bytes), total(dropped_bytes) FROM segment WHERE holder = ?"
        ((file_bytes, dropped_bytes),) = self._db.ask(question, holder)
        return Held(int(file_bytes), int(dropped_bytes))

    def holders(self, partition: int) -> dict[str, str]:
        """Who holds each segment of a partition."""
        return dict(self._db.ask("SELECT id, holder FROM segment WHERE partition = ?", partition))
