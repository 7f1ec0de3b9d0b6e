"""Small but whole runs, as the flow would hand them to the spool."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl

from schemas.frames import CHUNKS, LABELS, QUERIES, QUERY_METRICS, RANKINGS, RUN_METRICS
from schemas.measures import Measure
from warehouse.rows import (
    RunRow,
    StageRow,
    labels_frame,
    measures_frame,
    queries_frame,
    query_metrics_frame,
    rankings_frame,
    run_metrics_frame,
    runs_frame,
    stages_frame,
)

MEASURES = ("hit@1", "rr@10", "ndcg@10")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sample_run(
    run_id: str,
    *,
    experiment: str = "handbook",
    night: date = date(2026, 11, 29),
    n_queries: int = 5,
    depth: int = 10,
    measures: Sequence[str] = MEASURES,
    seed: int = 0,
    is_real: bool = False,
    **changes: Any,
) -> dict[str, pl.DataFrame]:
    """The frames of one completed run; equal seeds give equal rankings, labels and values.

    ``is_real``: the values are those of the rankings and labels, not drawn at random.
    ``changes`` replace fields of the run's row.
    """
    rng = random.Random(seed)
    query_ids = [f"q{i:05d}" for i in range(n_queries)]
    rankings = _rankings(query_ids, depth, rng)
    labels = _labels(query_ids, rng)
    queries = _queries(query_ids)
    values = _values(query_ids, measures, rng)
    if is_real:
        values = score(rankings, labels, queries, measures, depth)
    rankings_digest = digest(f"rankings {seed} {n_queries} {depth}")
    labels_digest = digest(f"labels {seed} {n_queries}")
    benchmark_digest = digest(f"benchmark {n_queries}")
    started = datetime(night.year, night.month, night.day, 2, tzinfo=UTC)
    fields: dict[str, Any] = {
        "run_id": run_id,
        "experiment": experiment,
        "logical_date": night,
        "status": "completed",
        "started_at": started,
        "ended_at": started + timedelta(seconds=30),
        "seconds": 30.0,
        "config": config_of(experiment, measures, depth),
        "config_digest": digest(experiment),
        "corpus_path": "corpus",
        "corpus_digest": digest("corpus"),
        "n_documents": 40,
        "benchmark_path": "benchmark.jsonl",
        "benchmark_digest": benchmark_digest,
        "n_queries": n_queries,
        "rankings_digest": rankings_digest,
        "labels_digest": labels_digest,
        "label_method": "document",
        "depth": depth,
        "models": [{"role": "embedding", "name": "all-MiniLM-L6-v2"}],
        "rankhouse_version": "0.1.0",
        "python_version": "3.11.7",
        "libraries": {"faiss-cpu": "1.15.1"},
        "machine": {"host": "night-1"},
    }
    stages = [
        StageRow(run_id=run_id, position=1, stage="load", cached=False, seconds=0.5),
        StageRow(run_id=run_id, position=2, stage="chunk", cached=True, figures={"n_chunks": 67}),
    ]
    keys = {measure: digest(f"key {measure} {n_queries}")[:32] for measure in measures}
    return {
        "runs": runs_frame(RunRow(**{**fields, **changes})),
        "stages": stages_frame(stages),
        "queries": queries_frame(queries, benchmark_digest=benchmark_digest),
        "rankings": rankings_frame(rankings, rankings_digest=rankings_digest),
        "labels": labels_frame(labels, labels_digest=labels_digest),
        "measures": measures_frame(measures),
        "query_metrics": query_metrics_frame(values, run_id=run_id),
        "run_metrics": run_metrics_frame(means_of(values), run_id=run_id, comparability_keys=keys),
    }


def config_of(experiment: str, measures: Sequence[str], depth: int) -> dict[str, Any]:
    return {
        "name": experiment,
        "corpus": {"path": "corpus"},
        "benchmark": {"path": "benchmark.jsonl"},
        "retrieval": {"depth": depth},
        "labelling": {"method": "document"},
        "measures": list(measures),
    }


def score(
    rankings: pl.DataFrame,
    labels: pl.DataFrame,
    queries: pl.DataFrame,
    measures: Sequence[str],
    depth: int,
) -> pl.DataFrame:
    from tasks.scoring import score_rankings
    from tasks.truth import count_truth

    return score_rankings(
        rankings,
        labels,
        count_truth(labels, queries.select("query_id", has_field=pl.lit(value=True)), 1),
        pl.DataFrame(schema=CHUNKS),
        queries,
        measures=[Measure.parse(name) for name in measures],
        label_method="document",
        min_coverage=0.5,
        level=1,
        depth=depth,
    )


def means_of(values: pl.DataFrame) -> pl.DataFrame:
    """The frame run_metrics of values whose contracts all reach from 0 to 1."""
    failed = pl.col("null_reason") == "failed"
    total = pl.col("value").sum()
    n_known = pl.col("value").count() + failed.sum()
    return (
        values.group_by("measure", "contract_version", maintain_order=True)
        .agg(
            pl.col("value").mean().alias("mean"),
            pl.col("value").count().cast(pl.Int64).alias("n_scored"),
            pl.len().cast(pl.Int64).alias("n_queries"),
            pl.lit(0, dtype=pl.Int64).alias("n_lost"),
            failed.sum().cast(pl.Int64).alias("n_failed"),
            (total / n_known).alias("low"),
            ((total + failed.sum()) / n_known).alias("high"),
        )
        .select(list(RUN_METRICS))
    )


def _queries(query_ids: Sequence[str]) -> pl.DataFrame:
    rows = [
        {
            "query_id": query_id,
            "text": f"What is {query_id}?",
            "tags": ["who", "fr"],
            "answers": None,
            "spans": [{"doc_id": "d1", "start": 0, "end": 4, "quote": "text", "grade": 2}],
            "qrels": [{"doc_id": "d1", "grade": 1}],
        }
        for query_id in query_ids
    ]
    return pl.DataFrame(rows, schema=QUERIES)


def _rankings(query_ids: Sequence[str], depth: int, rng: random.Random) -> pl.DataFrame:
    rows = []
    for query_id in query_ids:
        scores = sorted((rng.random() for _ in range(depth)), reverse=True)
        items = rng.sample(range(3 * depth), depth)
        for rank, (item, score) in enumerate(zip(items, scores, strict=True), start=1):
            rows.append((query_id, rank, f"d{item}", f"d{item}#0-100", score))
    return pl.DataFrame(rows, schema=RANKINGS, orient="row")


def _labels(query_ids: Sequence[str], rng: random.Random) -> pl.DataFrame:
    rows = [
        (query_id, "item", f"d{item}", f"d{item}", None, None, 1)
        for query_id in query_ids
        for item in rng.sample(range(15), 3)
    ]
    return pl.DataFrame(rows, schema=LABELS, orient="row")


def _values(query_ids: Sequence[str], measures: Sequence[str], rng: random.Random) -> pl.DataFrame:
    rows = [
        (query_id, measure, 1, rng.choice([0.0, 0.25, 0.5, rng.random(), 1.0]), None)
        for measure in measures
        for query_id in query_ids
    ]
    return pl.DataFrame(rows, schema=QUERY_METRICS, orient="row")
