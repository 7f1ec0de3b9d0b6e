"""From rankings and labels to the value of every measure for every query, and its mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from schemas.contracts import LabelMethod
from schemas.frames import QUERY_METRICS, RUN_METRICS
from schemas.measures import Measure
from tasks import evidence
from tasks.graded import Floats, mean_of
from tasks.ranking import score
from tasks.run_inputs import index_run


def columns_of_chunks(measures: Sequence[Measure]) -> tuple[str, ...]:
    """What measures read of CHUNKS: texts only where they look into them."""
    if any(measure.family in evidence.FAMILIES for measure in measures):
        return ("chunk_id", "doc_id", "start", "end", "text")
    return ("chunk_id",)


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
    inputs = index_run(
        rankings,
        labels,
        truth,
        chunks,
        queries,
        min_coverage=min_coverage if label_method == "span" else None,
        level=level,
        depth=depth,
    )
    values = np.empty((len(measures), inputs.n_queries))
    over_texts = np.array([m.family in evidence.FAMILIES for m in measures], dtype=np.bool_)
    found, pool = inputs.match()
    over_items = [m for m in measures if m.family not in evidence.FAMILIES]
    values[~over_texts] = score(found, pool, over_items, level=level)
    if over_texts.any():
        over_text = [m for m in measures if m.family in evidence.FAMILIES]
        values[over_texts] = inputs.score_texts(over_text)
    return _tabulate(values, measures, inputs.truth)


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


def mark_failed(query_metrics: pl.DataFrame, failed: pl.DataFrame) -> pl.DataFrame:
    """Take the values of queries that were not answered away, with the reason ``failed``.

    A query that the benchmark leaves out keeps its reason: an answer would have changed nothing.

    Args:
        query_metrics: QUERY_METRICS.
        failed: FAILED_QUERIES.
    """
    is_failed = pl.col("query_id").is_in(failed["query_id"].implode())
    is_ours = is_failed & pl.col("null_reason").is_null()
    return query_metrics.with_columns(
        value=pl.when(~is_ours).then("value"),
        null_reason=pl.when(is_ours).then(pl.lit("failed")).otherwise("null_reason"),
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
