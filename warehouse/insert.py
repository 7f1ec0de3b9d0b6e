"""One part into the tables, in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warehouse.files import is_full
from warehouse.parts import Part, PartRefusedError
from warehouse.retaining import PRUNED

if TYPE_CHECKING:
    from pathlib import Path

    from duckdb import DuckDBPyConnection

# What is stored once per digest: the column of runs that says whether it is there already.
_ONCE_PER_DIGEST = {"rankings": "rankings_digest", "labels": "labels_digest"}
# What is stored once per key: the key.
_ONCE_PER_KEY = {
    "queries": ("benchmark_digest", "query_id"),
    "measures": ("measure", "contract_version"),
    "events": ("event_id",),
    "comparisons": ("comparison_id",),
    "baselines": ("baseline_id",),
}
# Values of past runs come apart from them: what is there stays as it is.
_VALUE_KEYS = {
    "query_metrics": ("run_id", "measure", "contract_version", "query_id"),
    "run_metrics": ("run_id", "measure", "contract_version"),
}


def insert_part(connection: DuckDBPyConnection, part: Part) -> bool:
    """Insert a part, or nothing of it; False: the run is known already, or was removed.

    Raises:
        PartRefusedError: the part does not fit the tables.
        duckdb.Error: the database's own trouble, such as a full disk; the part is not at fault.
    """
    import duckdb

    connection.execute("BEGIN")
    try:
        is_new = not _is_known(connection, part)
        if is_new:
            _insert_tables(connection, part)
        connection.execute("COMMIT")
    except duckdb.Error as error:
        _roll_back(connection)
        if is_full(error) or isinstance(
            error, duckdb.FatalException | duckdb.InternalException | duckdb.OutOfMemoryException
        ):
            raise
        raise PartRefusedError(f"does not fit the tables: {error}") from error
    except BaseException:
        _roll_back(connection)
        raise
    return is_new


def _roll_back(connection: DuckDBPyConnection) -> None:
    import contextlib

    import duckdb

    with contextlib.suppress(duckdb.Error):  # a failed COMMIT has rolled back by itself
        connection.execute("ROLLBACK")


def _is_known(connection: DuckDBPyConnection, part: Part) -> bool:
    if part.kind != "run":
        return False
    row = connection.execute(
        "SELECT 1 FROM runs WHERE run_id = ? UNION ALL SELECT 1 FROM events WHERE event_id = ?",
        [part.part_id, f"{PRUNED}/{part.part_id}"],
    ).fetchone()
    return row is not None


def _insert_tables(connection: DuckDBPyConnection, part: Part) -> None:
    # The run comes last: before it, "is this digest known?" asks about the runs before it.
    for name, path in part.tables.items():
        if name == "runs":
            continue
        if name in _ONCE_PER_DIGEST and _has_digest(connection, part, _ONCE_PER_DIGEST[name]):
            continue
        key = _ONCE_PER_KEY.get(name) or (_VALUE_KEYS.get(name) if part.kind == "values" else None)
        _insert_rows(connection, name, path, key)
    if part.kind == "run":
        _insert_run(connection, part)


def _has_digest(connection: DuckDBPyConnection, part: Part, column: str) -> bool:
    """Whether a run with results had the same digest; one that failed may have stored nothing."""
    ours = f"SELECT {column} FROM read_parquet(?)"  # noqa: S608 - from the table above
    row = connection.execute(
        f"SELECT 1 FROM runs WHERE status <> 'failed' AND {column} = ({ours}) LIMIT 1",  # noqa: S608
        [str(part.tables["runs"])],
    ).fetchone()
    return row is not None


def _insert_rows(
    connection: DuckDBPyConnection, name: str, path: Path, key: tuple[str, ...] | None
) -> None:
    if name not in _tables(connection):
        raise PartRefusedError(f"there is no table {name!r}")
    select = "SELECT * FROM read_parquet(?) AS new"
    if key is not None:
        same = " AND ".join(f"old.{column} = new.{column}" for column in key)
        select += f" WHERE NOT EXISTS (SELECT 1 FROM {name} AS old WHERE {same})"  # noqa: S608
    connection.execute(f"INSERT INTO {name} BY NAME {select}", [str(path)])


def _tables(connection: DuckDBPyConnection) -> set[str]:
    return {
        name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    }


def _insert_run(connection: DuckDBPyConnection, part: Part) -> None:
    """The row of the run, with the attempt that its id gives it among those of its night."""
    path = str(part.tables["runs"])
    found = connection.execute(
        "SELECT run_id, experiment, logical_date FROM read_parquet(?)", [path]
    ).fetchall()
    if [row[0] for row in found] != [part.part_id]:
        raise PartRefusedError(f"runs.parquet must hold exactly the run {part.part_id}")
    run_id, experiment, logical_date = found[0]
    night = [experiment, logical_date, run_id]
    same_night = "experiment = ? AND logical_date = ?"
    earlier = f"SELECT count(*) FROM runs WHERE {same_night} AND run_id < ?"  # noqa: S608
    columns = f"*, 1 + ({earlier}) AS attempt, now() AS loaded_at"
    connection.execute(
        f"INSERT INTO runs BY NAME SELECT {columns} FROM read_parquet(?)",  # noqa: S608
        [*night, path],
    )
    later = f"{same_night} AND run_id > ?"
    # A run that lands late moves those of its night that started after it.
    if connection.execute(f"SELECT 1 FROM runs WHERE {later} LIMIT 1", night).fetchone():  # noqa: S608
        connection.execute(f"UPDATE runs SET attempt = attempt + 1 WHERE {later}", night)  # noqa: S608
