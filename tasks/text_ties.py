"""Bounds over the orders of ties for measures over texts: small runs of ties are tried out.

Which chunks are within a cutoff is all that matters, so only the run of ties that crosses it is
put in other orders, and every order is scored as a query of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from schemas.measures import Measure
from tasks.evidence import place_chunks
from tasks.graded import Floats
from tasks.run_inputs import RunInputs

MOST_ORDERS = 120
"""More orders than this of one query are not tried: its bounds are unknown."""


def bound_texts(
    inputs: RunInputs, measures: Sequence[Measure], *, gap: float
) -> tuple[Floats, Floats]:
    """Find the smallest and largest value over the orders of tied chunks.

    Args:
        inputs: the run.
        measures: of ``evidence.FAMILIES``.
        gap: see ``ties.tie_items``.

    Returns:
        Two arrays of (n_measures, n_queries); NaN in both where there are too many orders.
    """
    values = inputs.score_texts(measures)
    low, high = values.copy(), values.copy()
    runs = _tied_runs(inputs, gap)
    for index, measure in enumerate(measures):
        crossing = _crossing(runs, measure)
        is_small = crossing["n_orders"] <= MOST_ORDERS
        unknown = crossing.filter(~is_small)["query"].to_numpy()
        low[index, unknown] = high[index, unknown] = np.nan
        small = crossing.filter(is_small)
        if small.height:
            ranked, query_of = _try_orders(inputs.ranked, small, measure)
            tried = inputs.reorder(ranked, query_of).score_texts([measure])[0]
            np.minimum.at(low[index], query_of, tried)
            np.maximum.at(high[index], query_of, tried)
    return low, high


def _tied_runs(inputs: RunInputs, gap: float) -> pl.DataFrame:
    """query, first and last rank of each run of ties, and the characters before and after it."""
    placed = place_chunks(inputs.ranked, inputs.chunks).with_columns(
        score=inputs.ranked["retrieval_score"]
    )
    drop = pl.col("score").shift(1).over("query") - pl.col("score")
    begins = drop.is_null() | (drop.is_not_nan() & ((drop >= gap) if gap else (drop > 0)))
    runs = placed.with_columns(run=begins.cum_sum()).group_by("run", maintain_order=True)
    return (
        runs.agg(
            pl.col("query").first(),
            first=pl.col("rank").min(),
            last=pl.col("rank").max(),
            before=pl.col("before").min(),
            after=(pl.col("before") + pl.col("end") - pl.col("start")).max(),
        )
        .filter(pl.col("last") > pl.col("first"))
        .drop("run")
    )


def _crossing(runs: pl.DataFrame, measure: Measure) -> pl.DataFrame:
    """The runs that a cutoff cuts, and how many orders of each can differ."""
    cutoff = measure.cutoff or 0
    if measure.unit == "chars":
        cut = runs.filter(pl.col("before") < cutoff, pl.col("after") > cutoff)
    else:
        cut = runs.filter(pl.col("first") <= cutoff, pl.col("last") > cutoff)
    counts = [
        math.factorial(last - first + 1)
        if measure.unit == "chars"
        else math.comb(last - first + 1, cutoff - first + 1)
        for first, last in cut.select("first", "last").iter_rows()
    ]
    return cut.with_columns(
        pl.Series("n_orders", [min(count, MOST_ORDERS + 1) for count in counts], dtype=pl.Int64)
    )


def _try_orders(
    ranked: pl.DataFrame, crossing: pl.DataFrame, measure: Measure
) -> tuple[pl.DataFrame, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Every order as the ranking of a new query, cut after the run; and whose order it is."""
    rankings = dict(
        ranked.join(crossing, on="query", how="semi", maintain_order="left")
        .group_by("query", maintain_order=True)
        .agg("item_id")
        .iter_rows()
    )
    rows: list[tuple[int, int, str]] = []
    query_of: list[int] = []
    for query, first, last in crossing.select("query", "first", "last").iter_rows():
        items = rankings[query]
        above, tied = items[: first - 1], items[first - 1 : last]
        for order in _orders(tied, measure, first):
            rows.extend((len(query_of), rank, item) for rank, item in enumerate(above + order, 1))
            query_of.append(query)
    frame = pl.DataFrame(
        rows,
        schema={"query": pl.Int64, "rank": pl.Int64, "item_id": pl.String},
        orient="row",
    )
    return frame, np.array(query_of, dtype=np.int64)


def _orders(tied: list[str], measure: Measure, first: int) -> Iterator[list[str]]:
    """The orders of a run that differ: which items are within k, or who stands where."""
    if measure.unit == "chars":
        yield from map(list, itertools.permutations(tied))
    else:
        n_within = (measure.cutoff or 0) - first + 1
        yield from map(list, itertools.combinations(tied, n_within))
