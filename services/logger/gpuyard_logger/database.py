"""The one place where SQLite is used: its errors become those of a file, and damage is told apart."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

_WAIT_S = 10.0
_VERSION = 3
"""Raised when a table changes; a file of another version is made anew."""
_DAMAGED = frozenset(
    {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        # Statements here are correct and keep what they must: if not, the tables are not what they were.
        sqlite3.SQLITE_SCHEMA,
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
    }
)


class DamagedIndexError(OSError):
    """The file is no sound index."""


class Database:
    """One connection. Any call may raise OSError; nothing is half done then.

    Args:
        path: The file; made if there is none.
        damage: Set when the file turns out to be damaged.

    """

    def __init__(self, path: Path, damage: Event | None = None) -> None:
        self._damage = damage or Event()
        with self._errors():
            self._db = sqlite3.connect(path, isolation_level=None, timeout=_WAIT_S, check_same_thread=False)

    def prepare(self, schema: str) -> None:
        """Make what is missing, and check what is there.

        Raises:
            DamagedIndexError: it is no sound database of this version.

        """
        with self._errors():
            ((tables,),) = self._db.execute("SELECT count(*) FROM sqlite_schema")
            ((version,),) = self._db.execute("PRAGMA user_version")
            ((verdict,),) = self._db.execute("PRAGMA integrity_check(1)")
            if verdict != "ok" or (tables and version != _VERSION):
                raise DamagedIndexError(f"the index is not sound: {verdict}, version {version}")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.executescript(f"BEGIN; {schema} PRAGMA user_version = {_VERSION}; COMMIT")

    def close(self) -> None:
        self._db.close()

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._errors(), closing(self._db.execute(query, values)) as cursor:
            return cursor.fetchall()

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """All of what is done within, or nothing."""
        with self._errors(), self._db as db:
            db.execute("BEGIN IMMEDIATE")
            yield db

    def found_damage(self, why: str) -> DamagedIndexError:
        """Note that what was read can't be right."""
        self._damage.set()
        return DamagedIndexError(f"the index is damaged: {why}")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:
            raise self.found_damage(str(error)) from error
        except sqlite3.Error as error:
            if _is_damage(error):
                raise self.found_damage(str(error)) from error
            raise OSError(f"the index can't be used: {error}") from error


def _is_damage(error: sqlite3.Error) -> bool:
    if isinstance(error, sqlite3.OperationalError) and not hasattr(error, "sqlite_errorcode"):
        return True  # text that is none
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def remove_database(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
