"""Reading the published copy: nothing that is asked can write, read other files, or change this."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from schemas.errors import StorageError, UsageError
from schemas.home import Home
from warehouse.faults import WarehouseLockedError, check_length, check_path, explain
from warehouse.finding import FIRST_RUN
from warehouse.texts import chunk_folders, escape

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BATCH = 1000  # rows fetched at a time

# A PIVOT that has to look its columns up first is several statements to DuckDB, whatever is made
# of its rows: what only reads begins with one of these words, comments and brackets apart.
_READING = re.compile(
    r"(\s|\(|--[^\n]*(\n|$)|/\*.*?\*/)*(select|from|with|pivot|pivot_wider)\b", re.I | re.S
)


class CopyHeldError(StorageError):
    """Somebody has the published copy open for writing."""


def open_published(home: Home) -> DuckDBPyConnection:
    """Open the published copy, read-only and locked down.

    Raises:
        CopyHeldError: somebody has it open for writing.
        StorageError: there is none yet, or it cannot be read.
    """
    import duckdb

    check_path(home.published)
    if not home.published.exists():
        raise StorageError(why_missing(home))
    settings: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
    }
    try:
        connection = duckdb.connect(str(home.published), read_only=True, config=settings)
    except duckdb.Error as error:
        explained = explain(home.published, error)
        if isinstance(explained, WarehouseLockedError):
            raise CopyHeldError(
                f"{home.published}: {explained.holder or 'another process'} has it open for "
                "writing; close it, and open it read-only (duckdb -readonly) next time"
            ) from None
        raise explained from None
    try:
        _lock_down(connection, home)
    except duckdb.Error as error:
        connection.close()
        raise explain(home.published, error) from None
    except BaseException:
        connection.close()
        raise
    return connection


def _lock_down(connection: DuckDBPyConnection, home: Home) -> None:
    """No file but the chunks of the artifact stores, and no setting can be changed any more."""
    check_length(connection, home.published)
    folders = chunk_folders(home, connection)
    allowed = [f"{path}/" for folder in folders for path in {str(folder), escape(folder)}]
    connection.execute("SET TimeZone = 'UTC'")
    if allowed:
        listed = ", ".join("'" + path.replace("'", "''") + "'" for path in allowed)
        connection.execute(f"SET allowed_directories = [{listed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def ask(connection: DuckDBPyConnection, sql: str) -> tuple[list[str], Iterator[tuple[object, ...]]]:
    """Run one reading statement.

    Returns:
        The names of the columns, each once, and the rows as they are computed.

    Raises:
        UsageError: not exactly one statement, one that does more than read, or an error in it;
            DuckDB's message shows the position.
    """
    import duckdb

    check_statement(connection, sql)
    try:
        result = connection.execute(sql)
    except duckdb.Error as error:
        raise _explain(error) from None
    names = _distinct([str(column[0]) for column in result.description or []])
    return names, _rows(result)


def check_statement(connection: DuckDBPyConnection, sql: str) -> None:
    """Refuse what is not exactly one statement that reads.

    Raises:
        UsageError: several, none, one that does more, or one that cannot be parsed.
    """
    import duckdb

    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the SQL is not UTF-8 at character {error.start}") from None
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise UsageError(str(error).strip()) from None
    if len(statements) != 1:
        raise UsageError(f"expected one SQL statement, but got {len(statements)}")
    kind = statements[0].type
    is_pivot = kind.name == "MULTI" and _READING.match(sql) is not None
    if kind not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN) and not is_pivot:
        raise UsageError(
            f"expected a statement that reads (SELECT, FROM, WITH, PIVOT, DESCRIBE, SHOW, "
            f"SUMMARIZE, EXPLAIN), but got {kind.name}: the published warehouse is read-only"
        )


def _rows(result: DuckDBPyConnection) -> Iterator[tuple[object, ...]]:
    import duckdb

    while True:
        try:
            rows = result.fetchmany(BATCH)
        except duckdb.Error as error:  # a division or cast that fails half way
            raise _explain(error) from None
        if not rows:
            return
        yield from rows


def _explain(error: Exception) -> UsageError | StorageError:
    import duckdb

    text = str(error).strip()
    if isinstance(error, duckdb.IOException | duckdb.InternalException | duckdb.FatalException):
        return StorageError(
            f"the published copy, or a file that it names, cannot be read: {text}\n"
            "Where the copy is damaged, `rankhouse warehouse load` makes it anew."
        )
    return UsageError(text)


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


def why_missing(home: Home) -> str:
    """What to do where nothing is published yet."""
    waiting = (path for name in ("ready", "started.json") for path in home.spool.glob(f"*/{name}"))
    if home.warehouse.exists() or any(waiting):
        return f"nothing to read in {home.path} yet; take runs in with: rankhouse warehouse load"
    return f"no runs in {home.path} yet: {FIRST_RUN}"
