"""One run as files that other tools read: TREC, Parquet, ragas rows, a sheet."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from flows.past_runs import PastRun, read_chunks, read_past_run, read_rows
from flows.printing import defuse_cell
from flows.trec_exports import export_trec
from schemas.counting import counted
from schemas.frames import QUERIES, RANKINGS
from tasks.new_files import refuse_existing, write_new_files
from warehouse.files import why_unwritten
from warehouse.parts import write_frame

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DEFAULT_CONTEXTS = 5
TABLES_BY_RUN = (
    "runs",
    "stages",
    "events",
    "query_metrics",
    "run_metrics",
    "summary_scores",
    "summary_questions",
    "llm_calls",
)
TABLES_BY_DIGEST = {
    "queries": "benchmark_digest",
    "rankings": "rankings_digest",
    "labels": "labels_digest",
}


def export_run(
    connection: DuckDBPyConnection,
    run_id: str,
    kind: str,
    folder: Path,
    chunk_folders: Sequence[Path],
) -> list[str]:
    """Write a run into a folder, over no file that exists.

    Args:
        connection: the published copy.
        run_id: which run.
        kind: ``trec``, ``parquet``, ``ragas`` or ``csv``.
        folder: where; it is made when it is missing.
        chunk_folders: where the texts of chunks are.

    Returns:
        What to tell: the files, and what a reader has to know about them.

    Raises:
        UsageError: a file is there.
        StorageError: the folder cannot be written.
        InputError: ragas rows need the chunks' texts, and they are gone.
    """
    run = read_past_run(connection, run_id)
    if kind == "parquet":
        return _export_parquet(connection, run, folder)
    if kind == "ragas":
        return _export_ragas(connection, run, folder, chunk_folders)
    writers: dict[str, Callable[[DuckDBPyConnection, PastRun, Path], list[str]]] = {
        "trec": export_trec,
        "csv": _export_sheet,
    }
    return writers[kind](connection, run, folder)


def _export_parquet(connection: DuckDBPyConnection, run: PastRun, folder: Path) -> list[str]:
    """Every table's rows of the run."""
    where = {name: ("run_id", run.run_id) for name in TABLES_BY_RUN}
    where |= {name: (column, getattr(run, column)) for name, column in TABLES_BY_DIGEST.items()}
    paths = {name: folder / f"{name}.parquet" for name in where}
    refuse_existing(paths.values())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".rankhouse-", dir=folder) as scratch:
            for name, (column, value) in where.items():
                sql = f"SELECT * FROM {name} WHERE {column} = ? ORDER BY ALL"  # noqa: S608
                frame: pl.DataFrame = connection.cursor().sql(sql, params=[value]).pl()
                write_frame(Path(scratch) / name, frame, compression="zstd")
            for name, path in paths.items():
                (Path(scratch) / name).replace(path)
    except OSError as error:
        raise why_unwritten(folder, error) from None
    return [f"{folder}: {len(paths)} tables"]


def _export_ragas(
    connection: DuckDBPyConnection, run: PastRun, folder: Path, chunk_folders: Sequence[Path]
) -> list[str]:
    """Rows of ragas' single-turn samples, one query a line."""
    summary = run.experiment.summary
    n_contexts = summary.n_contexts if summary is not None else DEFAULT_CONTEXTS
    queries = read_rows(connection, "queries", "benchmark_digest", run.benchmark_digest, QUERIES)
    rankings = read_rows(connection, "rankings", "rankings_digest", run.rankings_digest, RANKINGS)
    texts = read_chunks(run, chunk_folders).select("chunk_id", "text")
    retrieved = (
        rankings.filter(pl.col("rank") <= n_contexts)
        .join(texts, on="chunk_id", how="left", maintain_order="left")
        .group_by("query_id", maintain_order=True)
        .agg(pl.col("text").drop_nulls().alias("retrieved_contexts"))
    )
    written = _responses(connection, run.run_id)
    lines = []
    for row in queries.join(retrieved, on="query_id", how="inner").iter_rows(named=True):
        sample = {
            "query_id": row["query_id"],
            "user_input": row["text"],
            "retrieved_contexts": row["retrieved_contexts"],
            "reference_contexts": row["reference_contexts"],
            "response": row["response"] or written.get(row["query_id"]),
            "reference": row["answers"][0] if row["answers"] else None,
        }
        known = {name: value for name, value in sample.items() if value is not None}
        lines.append(json.dumps(known, ensure_ascii=False) + "\n")
    name = f"{run.run_id}.ragas.jsonl"
    write_new_files(folder, {name: "".join(lines)})
    return [
        f"{folder / name}: {counted(len(lines), 'row')}, the first "
        f"{counted(n_contexts, 'context')} each"
    ]


def _responses(connection: DuckDBPyConnection, run_id: str) -> dict[str, str]:
    rows = connection.execute(
        "SELECT query_id, response FROM summary_scores WHERE run_id = ? AND response IS NOT NULL",
        [run_id],
    ).fetchall()
    return dict(rows)


def _export_sheet(connection: DuckDBPyConnection, run: PastRun, folder: Path) -> list[str]:
    """One query a row, one measure a column; a cell without a value says why."""
    queries = read_rows(connection, "queries", "benchmark_digest", run.benchmark_digest, QUERIES)
    about = {row["query_id"]: row for row in queries.iter_rows(named=True)}
    rows = connection.execute(
        "SELECT query_id, measure, value, null_reason FROM newest_query_metrics "
        "WHERE run_id = ? ORDER BY query_id",
        [run.run_id],
    ).fetchall()
    measures = sorted({measure for _, measure, _, _ in rows})
    cells: dict[str, dict[str, Any]] = {}
    for query_id, measure, value, null_reason in rows:
        cells.setdefault(query_id, {})[measure] = null_reason if value is None else value
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["query_id", "text", "tags", *measures])
    for query_id, values in cells.items():
        query = about[query_id]
        tags = ", ".join(query["tags"] or [])
        row = [query_id, query["text"], tags, *(values.get(name) for name in measures)]
        writer.writerow([defuse_cell(cell) for cell in row])
    name = f"{run.run_id}.csv"
    write_new_files(folder, {name: stream.getvalue()})
    return [f"{folder / name}: {counted(len(cells), 'query')}"]
