"""Whether a database file is as long as its own bookkeeping says: DuckDB opens one that is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

HEADER_BYTES = 3 * 4096  # the main header and two database headers, before the first block


def expected_bytes(connection: DuckDBPyConnection, *, is_thorough: bool) -> int:
    """The least number of bytes that the file must have.

    Args:
        connection: the database, as opened.
        is_thorough: look up where every table's segments lie (a walk over all metadata), instead
            of only counting the blocks in use, some of which may lie behind free ones.
    """
    row = connection.execute(
        "SELECT block_size, used_blocks FROM pragma_database_size() "
        "WHERE database_name = current_database()"
    ).fetchone()
    if row is None:
        return 0
    block_size, n_blocks = int(row[0]), int(row[1])
    if is_thorough:
        n_blocks = max(n_blocks, 1 + _last_block(connection))
    return HEADER_BYTES + block_size * n_blocks


def _last_block(connection: DuckDBPyConnection) -> int:
    asked = ["SELECT max(block_id) AS block_id FROM pragma_metadata_info()"]
    for (name,) in connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE NOT temporary"
    ).fetchall():
        asked.append(f"SELECT max(block_id) FROM pragma_storage_info('{name}')")  # noqa: S608
    row = connection.execute(
        f"SELECT max(block_id) FROM ({' UNION ALL '.join(asked)})"  # noqa: S608
    ).fetchone()
    return -1 if row is None or row[0] is None else int(row[0])
