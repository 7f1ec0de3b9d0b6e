"""Reading the published copy: nothing that is asked can write, read other files, or change this."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from schemas.errors import StorageError, UsageError
from schemas.home import Home
from warehouse.connect import WarehouseLockedError, check_path, explain

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BATCH = 1000  # rows fetched at a time


def open_published(home: Home) -> DuckDBPyConnection:
    """Open the published copy, read-only and locked down.

    Raises:
        StorageError: there is none yet, or it cannot be read.
    """
    import duckdb

    check_path(home.published)
    if not home.published.exists():
        raise StorageError(_why_missing(home))
    settings: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "enable_external_access": "false",
        "python_enable_replacements": "false",
    }
    try:
        connection = duckdb.connect(str(home.published), read_only=True, config=settings)
    except duckdb.Error as error:
        explained = explain(home.published, error)
        if isinstance(explained, WarehouseLockedError):
            raise StorageError(
                f"{home.published}: {explained.holder or 'another process'} has it open for "
                "writing; close it, and open it read-only (duckdb -readonly) next time"
            ) from None
        raise explained from None
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET lock_configuration = true")
    return connection


def ask(connection: DuckDBPyConnection, sql: str) -> tuple[list[str], Iterator[tuple[object, ...]]]:
    """Run one reading statement.

    Returns:
        The names of the columns, each once, and the rows as they are computed.

    Raises:
        UsageError: not exactly one statement, one that does more than read, or an error in it;
            DuckDB's message shows the position.
    """
    import duckdb

    _check_statement(connection, sql)
    try:
        result = connection.execute(sql)
    except duckdb.Error as error:
        raise UsageError(str(error).strip()) from None
    names = _distinct([str(column[0]) for column in result.description or []])
    return names, _rows(result)


def _check_statement(connection: DuckDBPyConnection, sql: str) -> None:
    import duckdb

    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise UsageError(str(error).strip()) from None
    if len(statements) != 1:
        raise UsageError(f"expected one SQL statement, but got {len(statements)}")
    kind = statements[0].type
    if kind not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise UsageError(
            f"expected a statement that reads (SELECT, FROM, WITH, DESCRIBE, SHOW, SUMMARIZE, "
            f"EXPLAIN), but got {kind.name}: the published warehouse is read-only"
        )


def _rows(result: DuckDBPyConnection) -> Iterator[tuple[object, ...]]:
    import duckdb

    while True:
        try:
            rows = result.fetchmany(BATCH)
        except duckdb.Error as error:  # a division or cast that fails half way
            raise UsageError(str(error).strip()) from None
        if not rows:
            return
        yield from rows


def _distinct(names: list[str]) -> list[str]:
    """Number repeated names, as DuckDB does for subqueries: a, a_1."""
    seen: set[str] = set()
    distinct = []
    for name in names:
        candidate, number = name, 0
        while candidate in seen:
            number += 1
            candidate = f"{name}_{number}"
        seen.add(candidate)
        distinct.append(candidate)
    return distinct


def _why_missing(home: Home) -> str:
    waits = home.warehouse.exists() or (home.spool.is_dir() and any(home.spool.iterdir()))
    advice = (
        "runs are waiting in the spool; take them in with: rankhouse warehouse load"
        if waits
        else "no run has landed yet; try: rankhouse demo"
    )
    return f"{home.published}: there is nothing published here: {advice}"
