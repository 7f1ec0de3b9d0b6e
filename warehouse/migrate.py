"""Numbered SQL, applied once each, in order, with the checksum of what ran."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from schemas.errors import StorageError
from warehouse.documenting import inherit_comments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from schemas.home import Home
    from warehouse.connect import OpenWarehouse

_RECORD = """
CREATE TABLE IF NOT EXISTS migrations (
    version INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    checksum VARCHAR NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL,
    rankhouse_version VARCHAR NOT NULL,
    duckdb_version VARCHAR NOT NULL
)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step; ``checksum`` is sha256 of its text with LF newlines."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """What is compared with the record of what ran."""
        return hashlib.sha256(self.sql.replace("\r\n", "\n").encode()).hexdigest()


def known_migrations() -> tuple[Migration, ...]:
    """The migrations of this version, in order, numbered from 1 without a gap."""
    folder = files("warehouse").joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    migrations = tuple(
        Migration(int(name[:4]), name, folder.joinpath(name).read_text("utf-8")) for name in names
    )
    if [migration.version for migration in migrations] != list(range(1, len(names) + 1)):
        raise StorageError(f"warehouse/migrations: expected 0001_… 0002_… without a gap: {names}")
    return migrations


def schema_version() -> int:
    """The version of the tables that this code writes."""
    return len(known_migrations())


def applied_migrations(connection: DuckDBPyConnection) -> list[tuple[int, str, str]]:
    """Version, name and checksum of what ran on this database; empty: it is new."""
    tables = [
        name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    ]
    if "migrations" not in tables:
        if tables:
            raise StorageError(
                "this DuckDB file holds other tables "
                f"({', '.join(sorted(tables)[:5])}) and is not a Rankhouse warehouse; "
                "set RANKHOUSE_HOME to a folder of its own"
            )
        return []
    return connection.execute(
        "SELECT version, name, checksum FROM migrations ORDER BY version"
    ).fetchall()


def pending_migrations(
    connection: DuckDBPyConnection, known: Sequence[Migration] | None = None
) -> list[Migration]:
    """What has still to run.

    Raises:
        StorageError: a migration that ran was edited since, or the database is newer.
    """
    known = known_migrations() if known is None else known
    applied = applied_migrations(connection)
    if len(applied) > len(known):
        raise StorageError(_why_newer(connection, len(known)))
    for (version, name, checksum), migration in zip(applied, known, strict=False):
        if checksum != migration.checksum:
            raise StorageError(
                f"migration {version} ({migration.name}) was edited after it ran on this "
                f"warehouse as {name}: checksum {migration.checksum[:12]}…, expected "
                f"{checksum[:12]}…. Restore the file, and write a new migration instead."
            )
    return list(known[len(applied) :])


def _why_newer(connection: DuckDBPyConnection, n_known: int) -> str:
    row = connection.execute(
        "SELECT version, name, rankhouse_version FROM migrations ORDER BY version DESC LIMIT 1"
    ).fetchone()
    version, name, writer = row or ("?", "?", "?")
    return (
        f"the warehouse has migration {version} ({name}), written by Rankhouse {writer}, and this "
        f"one ({rankhouse_version()}) knows {n_known}. Upgrade Rankhouse; nothing was changed."
    )


def apply_pending(
    connection: DuckDBPyConnection, known: Sequence[Migration] | None = None
) -> list[Migration]:
    """Run what is pending, each migration in a transaction together with its record."""
    pending = pending_migrations(connection, known)
    for migration in pending:
        connection.execute("BEGIN")
        try:
            connection.execute(_RECORD)
            connection.execute(migration.sql)
            inherit_comments(connection)
            connection.execute(
                "INSERT INTO migrations VALUES (?, ?, ?, now(), ?, version())",
                [migration.version, migration.name, migration.checksum, rankhouse_version()],
            )
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    return pending


def migrate(warehouse: OpenWarehouse, known: Sequence[Migration] | None = None) -> list[Migration]:
    """Bring an open warehouse up to date; a copy of the file is made first.

    The copy is ``<file>.before-NNNN``, NNNN being the first migration that is applied.

    Raises:
        StorageError: an edited migration, a newer database, or one that is not ours.
    """
    try:
        pending = pending_migrations(warehouse.connection, known)
        if pending and applied_migrations(warehouse.connection):
            name = f"{warehouse.path.name}.before-{pending[0].version:04d}"
            backup = warehouse.path.with_name(name)
            draft = backup.with_name(f".{backup.name}.tmp")
            warehouse.copy_to(draft)
            draft.replace(backup)
        return apply_pending(warehouse.connection, known)
    except StorageError as error:
        raise StorageError(f"{warehouse.path}: {error}") from None


def check_warehouse(home: Home) -> None:
    """Refuse a warehouse that no load could use, before a run spends anything.

    None yet is fine, and one that somebody holds: a load will look at it.

    Raises:
        StorageError: not DuckDB, not ours, damaged, newer, with an edited migration, or missing
            while there is a published copy of it.
    """
    from warehouse.connect import open_to_read
    from warehouse.faults import WarehouseLockedError
    from warehouse.restoring import refuse_lost

    if not home.warehouse.exists():
        refuse_lost(home.warehouse)
        return
    with suppress(WarehouseLockedError), open_to_read(home.warehouse, patience=0):
        pass


def check_migrations(connection: DuckDBPyConnection, path: Path) -> None:
    """Refuse a file whose migrations are not ours; see ``pending_migrations``."""
    try:
        pending_migrations(connection)
    except StorageError as error:
        raise StorageError(f"{path}: {error}") from None


def rankhouse_version() -> str:
    """Version of the installed package."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("rankhouse")
    except PackageNotFoundError:
        return "unknown"
