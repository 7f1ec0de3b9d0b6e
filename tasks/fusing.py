"""Two rankings of each query into one.

``rrf``: the sum of w / (k + rank), Cormack, Clarke and Büttcher (2009),
doi:10.1145/1571941.1572114, where every w is 1. ``weighted``: the sum of w times the normalised
score (CombSUM of Fox and Shaw, 1994), per query and list by ``min_max``, (s - min) / (max - min),
or ``z_score``, (s - mean) / standard deviation of all in the list. A list whose scores are all
equal gives each of its items 1 (``min_max``) or 0 (``z_score``). An item that a list lacks has 0
there, or with ``z_score`` the list's lowest: it was not better than what is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import polars as pl

from schemas.frames import LATENCIES, RANKINGS
from schemas.lexical_retrieval import Hybrid
from tasks.latencies import add_latencies, latency_figures
from tasks.ranked_lists import RankedLists

SCORE = pl.col("retrieval_score")


def fuse(
    dense: pl.DataFrame,
    bm25: pl.DataFrame,
    latencies: Sequence[pl.DataFrame],
    query_ids: Sequence[str],
    config: Hybrid,
    *,
    depth: int,
) -> RankedLists:
    """Fuse the rankings of each query.

    Args:
        dense: RANKINGS.
        bm25: RANKINGS of the same kind of items.
        latencies: LATENCIES of both.
        query_ids: all queries, in their order.
        config: the experiment's section; a list of weight 0 is left out.
        depth: the most items of a fused ranking.

    Returns:
        Rankings by fused score, then id. A document stands for its best chunk in the list that
        ranks it higher, the dense one where both do alike. Its latencies are those of both
        searches and of fusing (its mean).
    """
    started = perf_counter()
    order = pl.DataFrame({"query_id": query_ids}, {"query_id": pl.String}).with_row_index("query")
    parts = [
        _contributions(frame if weight else frame.clear(), weight, config, name)
        for frame, weight, name in (
            (dense, config.dense_weight, "dense"),
            (bm25, config.bm25_weight, "bm25"),
        )
    ]
    joined = parts[0].join(parts[1], on=["query_id", "item_id"], how="full", coalesce=True)
    for name, part in zip(("dense", "bm25"), parts, strict=True):
        lowest = part.group_by("query_id").agg(pl.col(f"absent_{name}").first())
        joined = joined.drop(f"absent_{name}").join(lowest, on="query_id", how="left")
    is_dense = (
        pl.col("rank_dense").le(pl.col("rank_bm25")).fill_null(pl.col("rank_dense").is_not_null())
    )
    fused = (
        joined.with_columns(
            retrieval_score=_part("dense") + _part("bm25") + 0.0,  # no -0.0
            chunk_id=pl.when(is_dense).then("chunk_dense").otherwise("chunk_bm25"),
        )
        .join(order, on="query_id")
        .sort("query", "retrieval_score", "item_id", descending=[False, True, True])
        .with_columns(rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("query"))
        .filter(pl.col("rank") <= depth)
        .select(RANKINGS.names())
    )
    milliseconds = 1000 * (perf_counter() - started) / max(1, len(query_ids))
    own = pl.DataFrame(
        {"query_id": query_ids, "milliseconds": [milliseconds] * len(query_ids)}, LATENCIES
    )
    whole = add_latencies([*latencies, own])
    figures = {
        "n_queries": len(query_ids),
        "n_results": fused.height,
        "n_in_both": joined.filter(
            pl.col("rank_dense").is_not_null() & pl.col("rank_bm25").is_not_null()
        ).height,
        **latency_figures(whole["milliseconds"]),
    }
    return RankedLists(fused, whole, figures)


def _contributions(frame: pl.DataFrame, weight: float, config: Hybrid, name: str) -> pl.DataFrame:
    """What each item of a list gets from it, and what an item that it lacks gets."""
    if config.fusion == "rrf":
        value, absent = 1 / (config.k + pl.col("rank")), pl.lit(0.0)
    elif config.normalisation == "min_max":
        low, high = SCORE.min().over("query_id"), SCORE.max().over("query_id")
        value = pl.when(high > low).then((SCORE - low) / (high - low)).otherwise(1.0)
        absent = pl.lit(0.0)
    else:
        is_flat = SCORE.max().over("query_id") == SCORE.min().over("query_id")
        mean, deviation = SCORE.mean().over("query_id"), SCORE.std(ddof=0).over("query_id")
        value = pl.when(is_flat).then(0.0).otherwise((SCORE - mean) / deviation)
        absent = value.min().over("query_id")
    return frame.select(
        "query_id",
        "item_id",
        pl.col("rank").alias(f"rank_{name}"),
        pl.col("chunk_id").alias(f"chunk_{name}"),
        (weight * value).alias(f"value_{name}"),
        (weight * absent).alias(f"absent_{name}"),
    )


def _part(name: str) -> pl.Expr:
    return pl.coalesce(f"value_{name}", f"absent_{name}", pl.lit(0.0))
