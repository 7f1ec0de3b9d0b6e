"""A past run's rankings, labels, truth, chunks and queries, as the stages had them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from schemas.errors import InputError
from schemas.experiment import Experiment, parse_experiment
from schemas.frames import CHUNKS, LABELS, QUERIES, RANKINGS
from schemas.measures import Measure
from tasks.evidence import FAMILIES
from tasks.truth import count_truth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

FIELDS = {"answer_text": ("answers",), "span": ("spans",), "document": ("qrels", "spans")}
"""What of a query each label method reads; one of them given is enough."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """What a run's measures are computed from."""

    run_id: str
    experiment: Experiment
    benchmark_digest: str
    rankings_digest: str
    labels_digest: str
    chunks_digest: str | None
    failed: tuple[str, ...] = ()  # queries that a retriever from elsewhere did not answer

    @property
    def result_key(self) -> tuple[object, ...]:
        """Runs with equal keys have equal values: nothing is computed twice."""
        labelling = self.experiment.labelling
        return (
            self.rankings_digest,
            self.labels_digest,
            self.chunks_digest,
            self.benchmark_digest,
            self.experiment.benchmark.split,
            labelling.method,
            labelling.min_coverage,
            labelling.level,
            self.experiment.retrieval.depth,
            self.failed,
        )


def read_past_run(connection: DuckDBPyConnection, run_id: str) -> PastRun:
    """Read a run that has results.

    Raises:
        ConfigurationError: its configuration is one that this version does not understand.
    """
    row = connection.execute(
        "SELECT config, benchmark_digest, rankings_digest, labels_digest, chunks_digest "
        "FROM runs WHERE run_id = ?",
        [run_id],
    ).fetchone()
    if row is None:
        raise KeyError(run_id)
    config, *digests = row
    experiment = parse_experiment(json.loads(config), where=f"run {run_id}")
    failed: list[tuple[str]] = []
    if experiment.retrieval.http is not None:
        failed = connection.execute(
            "SELECT DISTINCT query_id FROM events WHERE run_id = ? AND kind = 'warning' "
            "AND stage = 'retrieve_elsewhere' AND message LIKE 'not answered: %' ORDER BY 1",
            [run_id],
        ).fetchall()
    run = PastRun(run_id, experiment, *digests)
    return replace(run, failed=tuple(row[0] for row in failed))


def score_again(
    connection: DuckDBPyConnection,
    run: PastRun,
    measures: Sequence[Measure],
    chunk_folders: Sequence[Path],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Compute measures from what is stored, with the functions of the stage.

    Returns:
        QUERY_METRICS and RUN_METRICS.

    Raises:
        MeasureError: a measure that the run's depth or labels cannot give.
        InputError: a measure over texts, and the chunks are not in the artifact store any more.
    """
    from tasks.scoring import average_metrics, mark_failed, score_rankings

    labelling = run.experiment.labelling
    for measure in measures:
        measure.check_fits(depth=run.experiment.retrieval.depth, label_method=labelling.method)
    queries = _queries(connection, run)
    labels = read_rows(connection, "labels", "labels_digest", run.labels_digest, LABELS)
    given = [pl.col(name).is_not_null() for name in FIELDS[labelling.method]]
    has_field = queries.select("query_id", has_field=pl.any_horizontal(given))
    truth = count_truth(labels, has_field, labelling.level)
    values = score_rankings(
        read_rows(connection, "rankings", "rankings_digest", run.rankings_digest, RANKINGS),
        labels,
        truth,
        _chunks_for(run, measures, chunk_folders),
        queries,
        measures=list(measures),
        label_method=labelling.method,
        min_coverage=labelling.min_coverage,
        level=labelling.level,
        depth=run.experiment.retrieval.depth,
    )
    values = mark_failed(values, pl.DataFrame({"query_id": run.failed}, {"query_id": pl.String}))
    return values, average_metrics(values, truth)


def _queries(connection: DuckDBPyConnection, run: PastRun) -> pl.DataFrame:
    queries = read_rows(connection, "queries", "benchmark_digest", run.benchmark_digest, QUERIES)
    split = run.experiment.benchmark.split
    return queries if split is None else queries.filter(pl.col("split") == split)


def read_rows(
    connection: DuckDBPyConnection, table: str, column: str, digest: str, schema: pl.Schema
) -> pl.DataFrame:
    """The rows of one digest, in the types of a stage's frame."""
    columns = ", ".join(f'"{name}"' for name in schema)
    order = "query_id, rank" if "rank" in schema else "query_id"
    sql = f"SELECT {columns} FROM {table} WHERE {column} = ? ORDER BY {order}"  # noqa: S608
    frame: pl.DataFrame = connection.cursor().sql(sql, params=[digest]).pl()
    return frame.cast(schema)


def _chunks_for(run: PastRun, measures: Sequence[Measure], folders: Sequence[Path]) -> pl.DataFrame:
    if not any(measure.family in FAMILIES for measure in measures):
        return pl.DataFrame(schema=CHUNKS)
    return read_chunks(run, folders)


def read_chunks(run: PastRun, folders: Sequence[Path]) -> pl.DataFrame:
    """CHUNKS of a run, from the artifact store.

    Raises:
        InputError: the run has none, as one that was imported, or they are not there any more.
    """
    digest = run.chunks_digest
    if digest is None:
        raise InputError(
            f"run {run.run_id} has no chunks, as a run that was imported from TREC files has none; "
            "their texts are needed here"
        )
    for folder in folders:
        path = folder / digest[:2] / f"{digest}.parquet"
        if path.is_file():
            return pl.read_parquet(path)
    raise InputError(
        f"the chunks of run {run.run_id} ({digest[:12]}…) are not in the artifact store any more; "
        "their texts are needed here"
    )
