"""What the order of tied items is worth: each value's smallest and largest over all orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schemas.measures import Measure
from tasks.graded import Floats, Ints, Items, Pool, Ranked
from tasks.ranking import score
from tasks.tallying import cutoff_of

NEAR = 1e-6
"""Scores less than this apart are a near tie: another library or batch may swap them."""


@dataclass(frozen=True, slots=True)
class TiedItems:
    """Graded items with the run of tied ranks that each is part of, in the order of the runs."""

    items: Items
    run: Ints  # number of the run; runs ascend with query and rank
    first: Ints  # first rank of the run
    size: Ints  # ranks of the run


def tie_items(items: Items, query: Ints, scores: Floats, *, gap: float = 0.0) -> TiedItems:
    """Find the run of tied ranks that each item is part of.

    Args:
        items: the graded items among the rows.
        query: (n_rows,) index of the query, ascending; every rank has a row.
        scores: (n_rows,) descending within a query.
        gap: neighbours less than this apart are tied; 0: those that are equal.
    """
    begins = np.ones(len(query), dtype=np.bool_)
    with np.errstate(invalid="ignore"):  # the gap between two infinite scores is NaN: a tie
        drop = scores[:-1] - scores[1:]
    begins[1:] = (query[1:] != query[:-1]) | (drop >= gap if gap else drop > 0)
    run_start = np.flatnonzero(begins)
    query_start = np.searchsorted(query, items.query)
    run = (np.cumsum(begins) - 1)[query_start + items.rank - 1]
    return TiedItems(
        items=items,
        run=run,
        first=run_start[run] - query_start + 1,
        size=np.diff(run_start, append=len(query))[run],
    )


def bound_values(
    tied: TiedItems, ranked: Ranked, pool: Pool, measures: Sequence[Measure], *, level: int
) -> tuple[Floats, Floats]:
    """Find the smallest and largest value of every measure and query over the orders of ties.

    Moving an item of greater gain up never lowers a value, so the extremes are the tied items
    by gain ascending and descending. The one exception is ``ap_hits@k``, which can fall when
    another hit enters the first k: there every number of hits that can is tried.

    Returns:
        Two arrays of (n_measures, n_queries).
    """
    if not (tied.size > 1).any():
        values = score(ranked, pool, measures, level=level)
        return values, values
    low, high = (
        score(Ranked(_arrange(tied, is_best), ranked.n_returned), pool, measures, level=level)
        for is_best in (False, True)
    )
    for index, measure in enumerate(measures):
        if measure.family == "ap_hits" and measure.cutoff is not None:
            low[index], high[index] = _bound_ap_hits(tied, ranked, pool, measure, level)
    return low, high


def _arrange(tied: TiedItems, is_best: bool) -> Items:
    """Within each run the greatest gains first and at its top, or last and at its bottom."""
    gain = tied.items.gain
    order = np.lexsort((-gain if is_best else gain, tied.run))
    first, size = tied.first[order], tied.size[order]
    start = np.searchsorted(tied.run, tied.run)  # runs ascend, so they are where they were
    n_items = np.bincount(tied.run)[tied.run]
    rank = first + np.arange(len(order)) - start
    if not is_best:
        rank += size - n_items
    return Items(tied.items.query[order], rank, gain[order])


def _bound_ap_hits(
    tied: TiedItems, ranked: Ranked, pool: Pool, measure: Measure, level: int
) -> tuple[Floats, Floats]:
    """Try every number of hits that the run across the cutoff can have within it."""
    is_hit = tied.items.gain >= level
    hits = TiedItems(
        tied.items.where(is_hit), tied.run[is_hit], tied.first[is_hit], tied.size[is_hit]
    )
    cutoff = cutoff_of(measure)
    n_items = np.bincount(hits.run)[hits.run]
    turn = np.arange(len(hits.run)) - np.searchsorted(hits.run, hits.run)
    slots = cutoff - hits.first + 1
    crosses = (slots > 0) & (slots < hits.size)
    fewest = np.maximum(0, n_items - (hits.size - slots))
    most = np.minimum(n_items, slots)
    low = np.full(len(pool.n_relevant), np.inf)
    high = np.full(len(pool.n_relevant), -np.inf)
    for more in range(1 + int((most - fewest)[crosses].max(initial=0))):
        n_inside = np.minimum(fewest + more, most)
        for is_best in (False, True):
            rank = hits.first + turn + (0 if is_best else hits.size - n_items)
            inside = hits.first + turn if is_best else cutoff - n_inside + 1 + turn
            beyond = cutoff + 1 + turn
            rank = np.where(crosses, np.where(turn < n_inside, inside, beyond), rank)
            items = Items(hits.items.query, rank, hits.items.gain)
            values = score(Ranked(items, ranked.n_returned), pool, [measure], level=level)[0]
            low, high = np.minimum(low, values), np.maximum(high, values)
    return low, high
