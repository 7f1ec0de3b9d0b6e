"""One run as a TREC run and qrels, from which trec_eval prints the means that are stored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from flows.past_runs import PastRun, read_rows
from schemas.counting import counted
from schemas.frames import LABELS, RANKINGS
from tasks.new_files import write_new_files
from tasks.trec_ids import encode_id

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def export_trec(connection: DuckDBPyConnection, run: PastRun, folder: Path) -> list[str]:
    """Write both files; returns what a reader has to know about them."""
    rankings = read_rows(connection, "rankings", "rankings_digest", run.rankings_digest, RANKINGS)
    labels = read_rows(connection, "labels", "labels_digest", run.labels_digest, LABELS)
    unscored = _unscored(connection, run.run_id)
    judged = labels.filter(pl.col("kind") != "span", ~pl.col("query_id").is_in(unscored))
    level = run.experiment.labelling.level
    names = {"run": f"{run.run_id}.run", "qrels": f"{run.run_id}.qrels"}
    write_new_files(
        folder,
        {
            names["run"]: "".join(_run_lines(rankings, run.experiment.name)),
            names["qrels"]: "".join(
                f"{encode_id(query)} 0 {encode_id(item)} {gain}\n"
                for query, item, gain in judged.select("query_id", "item_id", "gain").rows()
            ),
        },
    )
    told = [f"{folder / name}" for name in names.values()]
    n_lost = judged.filter(pl.col("kind") == "lost").height
    if n_lost:
        told.append(f"for lost ground truth: {counted(n_lost, 'judged item')} lost/…")
    if unscored:
        told.append(f"queries that are not scored, left out of the qrels: {len(unscored):,}")
    n_empty = judged.select("query_id").unique().join(rankings, on="query_id", how="anti").height
    if n_empty:
        told.append(
            f"{counted(n_empty, 'judged query')} retrieved nothing: trec_eval counts such with -c"
        )
    if level != 1:
        told.append(f"relevant from grade {level} on: trec_eval -l {level}")
    n_moved = _n_moved(rankings)
    if n_moved:
        told.append(
            f"{counted(n_moved, 'query', ('has', 'have'))} tied items whose order differs once ids "
            "are percent-encoded"
        )
    return told


def _run_lines(rankings: pl.DataFrame, name: str) -> list[str]:
    tag = encode_id(name)
    columns = ("query_id", "item_id", "rank", "retrieval_score")
    return [
        f"{encode_id(query)} Q0 {encode_id(item)} {rank} {score!r} {tag}\n"
        for query, item, rank, score in rankings.select(columns).rows()
    ]


def _n_moved(rankings: pl.DataFrame) -> int:
    """Queries whose order by score, then encoded id, both descending, is not their ranks'."""
    encoded = rankings.with_columns(
        pl.col("item_id").map_elements(encode_id, return_dtype=pl.String).alias("encoded")
    )
    order = ["query_id", "retrieval_score", "encoded"]
    again = encoded.sort(order, descending=[False, True, True])
    rank = pl.int_range(1, pl.len() + 1).over("query_id")
    return again.filter(pl.col("rank") != rank)["query_id"].n_unique()


def _unscored(connection: DuckDBPyConnection, run_id: str) -> list[str]:
    rows = connection.execute(
        "SELECT DISTINCT value.query_id FROM newest_query_metrics AS value "
        "WHERE value.run_id = ? AND value.null_reason IN ('no_judged', 'no_relevant', 'failed') "
        "AND value.measure NOT IN ('summary_score', 'qa', 'conciseness') ORDER BY ALL",
        [run_id],
    ).fetchall()
    return [query_id for (query_id,) in rows]
