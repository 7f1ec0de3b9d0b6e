"""The SQLite files of our Prefect servers: one a home, a copy where it is in use."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout


@contextlib.contextmanager
def own_database(folder: Path) -> Iterator[Path]:
    """The home's database, or a private copy where another command uses it just now."""
    database = folder / "prefect.db"
    lock = FileLock(folder / "prefect.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        private = folder / f"prefect-{os.getpid()}.db"
    else:
        try:
            yield database
        finally:
            lock.release()
        return
    _copy_database(database, private)
    try:
        yield private
    finally:
        for leftover in folder.glob(f"{private.name}*"):
            leftover.unlink(missing_ok=True)


def set_damaged_aside(database: Path) -> None:
    """Rename a database that SQLite cannot read: it holds Prefect's records, no results."""
    if not database.exists():
        return
    try:
        with contextlib.closing(sqlite3.connect(database)) as connection:
            connection.execute("select count(*) from sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):  # locked or unreadable, not damaged
            return
        aside = database.with_suffix(f".damaged-{int(time.time())}")
        database.rename(aside)
        for journal in ("-wal", "-shm"):
            database.with_name(database.name + journal).unlink(missing_ok=True)
        logging.getLogger("rankhouse").warning(
            "%s is damaged (%s): moved to %s, and a new one is made; no result is in it",
            database,
            error,
            aside.name,
        )


def _copy_database(source: Path, target: Path) -> None:
    """Copy so that the second server need not migrate; without a source it starts from nothing."""
    target.unlink(missing_ok=True)
    if not source.exists():
        return
    try:
        with (
            contextlib.closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as original,
            contextlib.closing(sqlite3.connect(target)) as copy,
        ):
            original.backup(copy)
    except sqlite3.Error:  # being created just now: the second server makes its own
        target.unlink(missing_ok=True)
