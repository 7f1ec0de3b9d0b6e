"""Comments inside the database: a view's columns say what the columns they come from say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Comments = dict[str, dict[str, str | None]]


def read_comments(connection: DuckDBPyConnection) -> Comments:
    """Table or view to column to comment, columns in their order."""
    comments: Comments = {}
    for name, column, comment in connection.execute(
        "SELECT table_name, column_name, comment FROM duckdb_columns() "
        "WHERE NOT internal AND database_name = current_database() ORDER BY table_oid, column_index"
    ).fetchall():
        comments.setdefault(name, {})[column] = comment
    return comments


def inherit_comments(connection: DuckDBPyConnection) -> None:
    """Comment each bare column of a view like the column of its name in what the view reads."""
    comments = read_comments(connection)
    for view, sql in connection.execute(
        "SELECT view_name, sql FROM duckdb_views() "
        "WHERE NOT internal AND database_name = current_database() ORDER BY view_oid"
    ).fetchall():
        words = re.findall(r"\w+", sql)
        sources = sorted((set(comments) & set(words)) - {view}, key=words.index)
        for column, comment in comments[view].items():
            found = [comments[name].get(column) for name in sources]
            inherited = next((text for text in found if text), None)
            if comment is None and inherited is not None:
                comment_column(connection, view, column, inherited)
                comments[view][column] = inherited


def comment_column(connection: DuckDBPyConnection, table: str, column: str, comment: str) -> None:
    """Write one comment."""
    text = comment.replace("'", "''")
    connection.execute(f"""COMMENT ON COLUMN {table}."{column}" IS '{text}'""")
