"""A warehouse that is gone while its copy is there: never begun anew, always restored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from schemas.counting import counted
from schemas.errors import StorageError
from warehouse.faults import PUBLISHED, how_to_restore
from warehouse.retaining import PRUNED

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def refuse_lost(path: Path) -> None:
    """Refuse to make a new warehouse beside a published copy of a lost one.

    The next load would replace the copy, which may be all that is left of the results.

    Raises:
        StorageError: the copy holds runs, or cannot be read.
    """
    copy = path.with_name(PUBLISHED)
    if not copy.exists():
        return
    n_runs = count_runs(copy)
    if n_runs == 0 or path.exists():  # made meanwhile by somebody else
        return
    if n_runs is None:
        raise StorageError(
            f"{path}: missing, and {copy} beside it cannot be read. Restore a backup, or move "
            f"{copy.name} away: a new warehouse is made when neither is there."
        )
    raise StorageError(
        f"{path}: missing, and {copy.name} beside it holds {counted(n_runs, 'run')}. "
        f"{how_to_restore(path)}"
    )


def count_runs(path: Path) -> int | None:
    """How many runs a database file has taken; None: it cannot be read."""
    import duckdb

    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            return count_runs_taken(connection)
    except (duckdb.Error, OSError):
        return None


def count_runs_taken(connection: DuckDBPyConnection) -> int:
    """How many runs were ever loaded: those that are there, and those that were pruned."""
    row = connection.execute(
        "SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM events WHERE kind = ?)",
        [PRUNED],
    ).fetchone()
    return 0 if row is None else int(row[0])
