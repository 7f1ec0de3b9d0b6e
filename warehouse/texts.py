"""The view over chunk texts: they stay in the artifact store, and SQL reaches them there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from warehouse.documenting import comment_column, read_comments

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from schemas.home import Home

VIEW = "chunk_texts"

_SELECT = """
CREATE OR REPLACE VIEW chunk_texts AS
SELECT regexp_extract(filename, '([0-9a-f]{{64}})[.]parquet$', 1) AS chunks_digest,
    chunk_id, doc_id, "start", "end", text, title
FROM read_parquet([{patterns}], filename = true)
"""


def chunk_folders(home: Home, connection: DuckDBPyConnection) -> list[Path]:
    """The folders of chunks, of the home's own store and of other local ones that runs used."""
    stores = {home.artifacts}
    for (store,) in connection.execute(
        "SELECT DISTINCT config ->> '$.execution.store' FROM runs"
    ).fetchall():
        if store and (store.startswith("file://") or "://" not in store):
            stores.add(Path(store.removeprefix("file://")))
    return sorted(store / "chunks" for store in stores if (store / "chunks").is_dir())


def point_view_at(connection: DuckDBPyConnection, folders: list[Path]) -> bool:
    """Let the view read the chunks in these folders; False: there are none, it stays empty."""
    filled = [folder for folder in folders if next(folder.glob("*/*.parquet"), None)]
    if not filled:
        return False
    patterns = ", ".join(
        "'" + f"{escape(folder)}/*/*.parquet".replace("'", "''") + "'" for folder in filled
    )
    comments = read_comments(connection)[VIEW]
    (about,) = connection.execute(
        "SELECT comment FROM duckdb_views() WHERE view_name = ?", [VIEW]
    ).fetchone() or (None,)
    connection.execute(_SELECT.format(patterns=patterns))
    for column, comment in comments.items():
        if comment:
            comment_column(connection, VIEW, column, comment)
    if about:
        quoted = about.replace("'", "''")
        connection.execute(f"COMMENT ON VIEW {VIEW} IS '{quoted}'")
    return True


def escape(folder: Path) -> str:
    """The path as a pattern that matches only itself."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(folder))
