"""Whether the two database files can be used, looked at for a moment and read-only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import StorageError
from schemas.home import Home
from warehouse.faults import PUBLISHED, WarehouseLockedError, explain

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SMALL = 1 << 26  # bytes that are read in well under a second


def fault_of_warehouse(home: Home) -> tuple[str, str] | None:
    """What is wrong with the warehouse, and why; None: nothing, or somebody is writing it.

    Returns:
        ``missing`` (where a copy says that there was one) or ``unusable``, and the reason.
    """
    import duckdb

    from warehouse.connect import open_to_read

    if not home.warehouse.exists():
        is_lost = home.published.exists()
        return ("missing", _reason_lost(home)) if is_lost else None
    try:
        with open_to_read(home.warehouse, patience=0) as connection:
            _read(connection, home.warehouse)
    except WarehouseLockedError:
        return None
    except StorageError as error:
        return "unusable", str(error)
    except duckdb.Error as error:
        return "unusable", str(explain(home.warehouse, error))
    return None


def fault_of_copy(home: Home) -> str | None:
    """Why the published copy cannot be read; None: it can, there is none, or it is held."""
    import duckdb

    from warehouse.reading import CopyHeldError, open_published

    if not home.published.exists():
        return None
    try:
        with open_published(home) as connection:
            _read(connection, home.published)
    except CopyHeldError:
        return None
    except StorageError as error:
        return str(error)
    except duckdb.Error as error:
        return str(explain(home.published, error))
    return None


def _read(connection: DuckDBPyConnection, path: Path) -> None:
    """Read the table of runs, of a small file every table: DuckDB checks each block it reads."""
    tables = ["runs"]
    if path.stat().st_size <= SMALL:
        found = connection.execute("SELECT table_name FROM duckdb_tables() WHERE NOT temporary")
        tables = [name for (name,) in found.fetchall()]
        tables += [] if "runs" in tables else ["runs"]
    for name in tables:
        connection.execute(f"SELECT max(hash(t)) FROM {name} AS t").fetchall()  # noqa: S608


def _reason_lost(home: Home) -> str:
    from warehouse.restoring import refuse_lost

    try:
        refuse_lost(home.warehouse)
    except StorageError as error:
        return str(error)
    return f"there is {PUBLISHED}, without runs, and no warehouse"
