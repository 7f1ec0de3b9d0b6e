"""The answer to a question as a file: Parquet, CSV or JSON, streamed, there whole or not at all.

DuckDB could write these itself, but the connection that reads must not be able to write.
"""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from flows.printing import defuse_cell
from schemas.errors import StorageError, UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROWS_AT_ONCE = 50_000  # of a Parquet row group


def export_query(connection: DuckDBPyConnection, sql: str, path: Path) -> int:
    """Run one reading statement and write its rows to a file.

    Args:
        connection: the published copy.
        sql: the statement.
        path: ``.parquet``, ``.csv`` or ``.json``; an older file is replaced when all is written.

    Returns:
        How many rows.

    Raises:
        UsageError: the suffix is another one, or the statement cannot be run.
        StorageError: the file cannot be written.
    """
    write = _WRITERS.get(path.suffix.lower())
    if write is None:
        raise UsageError(f"{path}: expected a name that ends in {', '.join(_WRITERS)}")
    draft = path.with_name(f".{path.name}-{os.getpid()}.tmp")
    try:
        n_rows = write(connection, sql, draft)
        draft.replace(path)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        draft.unlink(missing_ok=True)
    return n_rows


def printable(value: object) -> object:
    """JSON has no NaN or infinity: a query that makes one gets it as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list | tuple):
        return [printable(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): printable(item) for key, item in value.items()}
    return value


def mappings(columns: list[str], rows: Iterator[tuple[object, ...]]) -> Iterator[dict[str, object]]:
    """Rows as mappings of what can be printed."""
    for row in rows:
        yield {name: printable(value) for name, value in zip(columns, row, strict=True)}


def _write_csv(connection: DuckDBPyConnection, sql: str, path: Path) -> int:
    from warehouse.reading import ask

    columns, rows = ask(connection, sql)
    n_rows = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([defuse_cell(name) for name in columns])
        for row in rows:
            writer.writerow([defuse_cell(value) for value in row])
            n_rows += 1
    return n_rows


def _write_json(connection: DuckDBPyConnection, sql: str, path: Path) -> int:
    from warehouse.reading import ask

    columns, rows = ask(connection, sql)
    n_rows = 0
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        for n_rows, row in enumerate(mappings(columns, rows), start=1):
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
        raise UsageError(str(error).strip()) from None
    return n_rows


_WRITERS: dict[str, Callable[[DuckDBPyConnection, str, Path], int]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".json": _write_json,
}
