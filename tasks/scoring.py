"""From rankings and labels to the value of every measure for every query, and its mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from schemas.contracts import LabelMethod
from schemas.errors import StageError
from schemas.frames import QUERY_METRICS, RUN_METRICS
from schemas.measures import Measure
from tasks import evidence
from tasks.graded import Floats, Items, Pool, Ranked, mean_of, pool_judgements
from tasks.ranking import score


def score_rankings(
    rankings: pl.DataFrame,
    labels: pl.DataFrame,
    truth: pl.DataFrame,
    chunks: pl.DataFrame,
    queries: pl.DataFrame,
    *,
    measures: Sequence[Measure],
    label_method: LabelMethod,
    min_coverage: float,
    level: int,
    depth: int,
) -> pl.DataFrame:
    """Compute every measure for every query of the split.

    Args:
        rankings: RANKINGS; ranks run from 1 without a gap.
        labels: LABELS of the same method.
        truth: TRUTH, one row a query.
        chunks: CHUNKS; read by the measures over texts.
        queries: QUERIES; their answers are read by ``evidence_recall@Nchars``.
        measures: those that fit ``depth`` and ``label_method``.
        label_method: ``answer_text``, ``span`` or ``document``.
        min_coverage: as in labelling.
        level: from this grade on an item is relevant.
        depth: what stands below is not looked at.

    Returns:
        QUERY_METRICS, by query_id bytewise, then in the order of ``measures``; NULL with the
        query's reason where truth gives one.

    Raises:
        MeasureError: a measure that does not fit.
        StageError: a ranking holds an item twice, or its ranks have gaps.
    """
    for measure in measures:
        measure.check_fits(depth=depth, label_method=label_method)
    ordered = truth.sort("query_id")
    index = ordered.select("query_id").with_row_index("query").cast({"query": pl.Int64})
    ranked = _index_queries(rankings, index).filter(pl.col("rank") <= depth).sort("query", "rank")
    _check_ranks(ranked)
    labelled = _index_queries(labels, index)
    values = np.empty((len(measures), ordered.height))
    over_texts = np.array([m.family in evidence.FAMILIES for m in measures], dtype=np.bool_)
    over_items = [m for m in measures if m.family not in evidence.FAMILIES]
    found, pool = _match(ranked, labelled, ordered, level)
    values[~over_texts] = score(found, pool, over_items, level=level)
    if over_texts.any():
        values[over_texts] = _score_texts(
            evidence.place_chunks(ranked, chunks),
            labelled.filter(pl.col("gain") >= level),
            chunks,
            _index_queries(queries, index),
            [m for m in measures if m.family in evidence.FAMILIES],
            n_queries=ordered.height,
            min_coverage=min_coverage if label_method == "span" else None,
        )
    return _tabulate(values, measures, ordered)


def _index_queries(frame: pl.DataFrame, index: pl.DataFrame) -> pl.DataFrame:
    return frame.join(index, on="query_id", how="inner", maintain_order="left")


def _check_ranks(ranked: pl.DataFrame) -> None:
    twice = ranked.filter(ranked.select("query", "item_id").is_duplicated())
    if twice.height:
        raise StageError(
            f"the ranking of query {twice['query_id'][0]!r} holds {twice['item_id'][0]!r} twice; "
            "an item has one rank"
        )
    expected = pl.int_range(1, pl.len() + 1).over("query")
    gap = ranked.filter(pl.col("rank") != expected)
    if gap.height:
        raise StageError(
            f"the ranking of query {gap['query_id'][0]!r} has rank {gap['rank'][0]} out of turn; "
            "ranks run from 1 without a gap"
        )


def _match(
    ranked: pl.DataFrame, labelled: pl.DataFrame, truth: pl.DataFrame, level: int
) -> tuple[Ranked, Pool]:
    """What was found and what could be, lost ground truth included."""
    judged = labelled.filter(pl.col("kind") == "item", pl.col("gain") >= 0)
    hits = ranked.select("query", "rank", "item_id").join(
        judged.select("query", "item_id", "gain"), on=["query", "item_id"], maintain_order="left"
    )
    counts = np.bincount(ranked["query"].to_numpy(), minlength=truth.height)
    items = Items(hits["query"].to_numpy(), hits["rank"].to_numpy(), hits["gain"].to_numpy())
    known = labelled.filter(pl.col("kind").is_in(["item", "lost"]))
    pool = pool_judgements(
        known["query"].to_numpy(), known["gain"].to_numpy(), n_queries=truth.height, level=level
    )
    n_relevant = truth["n_relevant"].to_numpy()
    return Ranked(items, counts), Pool(n_relevant, pool.n_nonrelevant, pool.ideal)


def _score_texts(
    placed: pl.DataFrame,
    relevant: pl.DataFrame,
    chunks: pl.DataFrame,
    queries: pl.DataFrame,
    measures: Sequence[Measure],
    *,
    n_queries: int,
    min_coverage: float | None,
) -> Floats:
    if min_coverage is not None:
        spans = relevant.filter(pl.col("kind") == "span")
        return evidence.score_spans(
            placed,
            spans.select("query", "doc_id", "start", "end"),
            measures,
            n_queries=n_queries,
            min_coverage=min_coverage,
        )
    items = relevant.filter(pl.col("kind") == "item").select("query", "item_id")
    texts = items.join(chunks.select("text", item_id="chunk_id"), on="item_id").join(
        queries.select("query", "answers"), on="query"
    )
    return evidence.score_answers(placed, items, texts, measures, n_queries=n_queries)


def _tabulate(values: Floats, measures: Sequence[Measure], truth: pl.DataFrame) -> pl.DataFrame:
    n_measures = len(measures)
    table = truth.select("query_id", "null_reason").select(pl.all().repeat_by(n_measures).explode())
    names = pl.DataFrame(
        {
            "measure": [str(measure) for measure in measures] * truth.height,
            "contract_version": [measure.contract.version for measure in measures] * truth.height,
            "value": values.T.ravel(),
        },
        schema_overrides={"measure": pl.String, "contract_version": pl.Int64},
    )
    return (
        pl.concat([table, names], how="horizontal")
        .with_columns(pl.when(pl.col("null_reason").is_null()).then("value").alias("value"))
        .select(QUERY_METRICS.names())
        .cast(QUERY_METRICS)
    )


def average_metrics(query_metrics: pl.DataFrame, truth: pl.DataFrame) -> pl.DataFrame:
    """Average every measure over its scored queries.

    A mean is the sequential sum in bytewise order of query ids, divided by their number. Values
    that failed stay out of it; ``low`` and ``high`` say where it would be, had all of them been
    at the ends of the contract's range.

    Args:
        query_metrics: QUERY_METRICS, in any order.
        truth: TRUTH, one row a query of the split.

    Returns:
        RUN_METRICS, in the order in which the measures first appear.
    """
    n_lost = truth.filter(pl.col("n_lost") > 0).height
    rows = []
    for (name,), group in query_metrics.group_by("measure", maintain_order=True):
        ordered = group.sort("query_id")
        values = ordered["value"].drop_nulls().to_numpy()
        n_failed = ordered.filter(pl.col("null_reason") == "failed").height
        contract = Measure.parse(str(name)).contract
        rows.append(
            {
                "measure": name,
                "contract_version": group["contract_version"][0],
                "mean": mean_of(values),
                "n_scored": len(values),
                "n_queries": truth.height,
                "n_lost": n_lost,
                "n_failed": n_failed,
                "low": mean_of(values, n_failed, contract.lowest),
                "high": mean_of(values, n_failed, contract.highest),
            }
        )
    return pl.DataFrame(rows, schema=RUN_METRICS)
