"""The answer to a question as a file: Parquet, CSV or JSON, streamed, there whole or not at all.

DuckDB could write these itself, but the connection that reads must not be able to write.
"""

from __future__ import annotations

import csv
import errno
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from flows.printing import defuse_cell
from flows.sql_values import cell_value, mappings
from schemas.errors import UsageError
from warehouse.files import is_full, why_unwritten

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROWS_AT_ONCE = 50_000  # of a Parquet row group


def export_query(connection: DuckDBPyConnection, sql: str, path: Path) -> int:
    """Run one reading statement and write its rows to a file.

    Args:
        connection: the published copy.
        sql: the statement.
        path: ``.parquet``, ``.csv`` or ``.json``; it appears when all is written, and never in
            place of a file or link that is there.

    Returns:
        How many rows.

    Raises:
        UsageError: the suffix is another one, the file exists, or the statement cannot be run.
        StorageError: the file cannot be written.
        FailedError: its disk is full.
    """
    write = _WRITERS.get(path.suffix.lower())
    if write is None:
        raise UsageError(f"{path}: expected a name that ends in {', '.join(_WRITERS)}")
    if os.path.lexists(path):
        raise _exists(path)
    try:
        with tempfile.TemporaryDirectory(prefix=".rankhouse-", dir=path.parent) as scratch:
            draft = Path(scratch) / path.name
            n_rows = write(connection, sql, draft)
            _take_name(draft, path)
    except OSError as error:
        raise why_unwritten(path, error) from None
    return n_rows


def _take_name(draft: Path, path: Path) -> None:
    """Give the finished file its name, unless somebody has taken it meanwhile."""
    try:
        try:
            os.link(draft, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            path.open("x").close()
            draft.replace(path)
    except FileExistsError:
        raise _exists(path) from None


def _exists(path: Path) -> UsageError:
    return UsageError(
        f"{path}: there is such a file already, and nothing was written. "
        "Move it away, or name another file with --output."
    )


def _write_csv(connection: DuckDBPyConnection, sql: str, path: Path) -> int:
    from warehouse.reading import ask

    columns, rows = ask(connection, sql)
    n_rows = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([defuse_cell(name) for name in columns])
        for row in rows:
            writer.writerow([defuse_cell(cell_value(value)) for value in row])
            n_rows += 1
    return n_rows


def _write_json(connection: DuckDBPyConnection, sql: str, path: Path) -> int:
    from warehouse.reading import ask

    columns, rows = ask(connection, sql)
    n_rows = 0
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        for n_rows, row in enumerate(mappings(columns, rows, format="json"), start=1):
            file.write(",\n  " if n_rows > 1 else "\n  ")
            file.write(json.dumps(row, ensure_ascii=False, default=str))
        file.write("\n]\n" if n_rows else "]\n")
    return n_rows


def _write_parquet(connection: DuckDBPyConnection, sql: str, path: Path) -> int:
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq

    from warehouse.reading import check_statement

    check_statement(connection, sql)
    n_rows = 0
    try:
        reader = connection.cursor().sql(sql).to_arrow_reader(ROWS_AT_ONCE)
        with pq.ParquetWriter(path, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
                n_rows += batch.num_rows
    except (duckdb.Error, pa.ArrowException) as error:
        if is_full(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        raise UsageError(str(error).strip()) from None
    return n_rows


_WRITERS: dict[str, Callable[[DuckDBPyConnection, str, Path], int]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".json": _write_json,
}
