"""Graded items, and sums over them in rank order.

A ranking is held by its graded items alone: a gain of 0 never changes a sum, and most of what is
retrieved has none. ``np.add.at`` adds one element after the other, so a sum over items in rank
order is the sum of a plain loop, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

NO_CUTOFF = 2**62


@dataclass(frozen=True, slots=True)
class Items:
    """Graded items in the order of their query, then rank; three arrays of one length."""

    query: Ints  # index of the query, from 0
    rank: Ints  # from 1
    gain: Ints  # the grade, 0 or more

    def where(self, mask: Mask) -> Items:
        """The items that a mask keeps, in their order."""
        return Items(self.query[mask], self.rank[mask], self.gain[mask])


@dataclass(frozen=True, slots=True)
class Pool:
    """What could be found; arrays have one entry a query."""

    n_relevant: Ints  # R
    n_nonrelevant: Ints  # judged, with a grade from 0 to below the level
    ideal: Items  # every item with a gain above 0, best first


@dataclass(frozen=True, slots=True)
class Ranked:
    """What was found."""

    items: Items  # the judged items among what was returned
    n_returned: Ints  # (n_queries,) items returned, judged or not


def pool_judgements(query: Ints, gain: Ints, *, n_queries: int, level: int) -> Pool:
    """Count and order the judgements of each query.

    Args:
        query: (n,) index of the query, in any order.
        gain: (n,) grade; below 0: unjudged.
        n_queries: how many queries there are.
        level: from this grade on an item is relevant.
    """
    has_gain = gain > 0
    best_first = sort_items(query[has_gain], -gain[has_gain], gain[has_gain])
    ideal_rank = positions(best_first.query, n_queries)
    return Pool(
        n_relevant=np.bincount(query[gain >= level], minlength=n_queries),
        n_nonrelevant=np.bincount(query[(gain >= 0) & (gain < level)], minlength=n_queries),
        ideal=Items(best_first.query, ideal_rank, best_first.gain),
    )


def sort_items(query: Ints, rank: Ints, gain: Ints) -> Items:
    """Put items in the order of their query, then rank."""
    low, high = int(rank.min(initial=0)), int(rank.max(initial=0))
    span = high - low + 1
    if (int(query.max(initial=0)) + 1) * span < 2**62:
        # One whole number sorts several times faster than two keys.
        order = np.argsort(query * span + (rank - low))
    else:
        order = np.lexsort((rank, query))
    return Items(query[order], rank[order], gain[order])


def positive_items(gains: NDArray[np.integer]) -> Items:
    """The items with a gain above 0 of a (n_queries, depth) matrix, best first in each row."""
    flat = gains.ravel()
    cells = np.flatnonzero(flat > 0)
    query = cells // max(1, gains.shape[1])
    return Items(query, cells - query * gains.shape[1] + 1, flat[cells].astype(np.int64))


def positions(query: Ints, n_queries: int) -> Ints:
    """Number each query's items from 1, in their order; items are grouped by query."""
    counts = np.bincount(query, minlength=n_queries)
    first = np.cumsum(counts) - counts
    return np.arange(1, len(query) + 1) - first[query]


class Segments:
    """Items split at ascending cutoffs, so that sums run from one cutoff to the next.

    Args:
        items: in the order of their query, then rank.
        cutoffs: ascending; items beyond the last are left out.
        n_queries: how many queries there are.
    """

    def __init__(self, items: Items, cutoffs: Sequence[int], n_queries: int):
        self._shape = (len(cutoffs), n_queries)
        last_rank = int(items.rank.max(initial=0))
        segment = np.searchsorted(cutoffs, np.arange(last_rank + 1)).astype(np.uint16)[items.rank]
        self._order = np.argsort(segment, kind="stable")  # by rank within a segment and query
        self._query = items.query[self._order]
        self._ends = np.cumsum(np.bincount(segment, minlength=len(cutoffs)))[: len(cutoffs)]

    def count(self) -> Ints:
        """(n_cutoffs, n_queries) items within each cutoff."""
        counts = np.zeros(self._shape, dtype=np.int64)
        start = 0
        for row, end in zip(counts, self._ends, strict=True):
            row[:] = np.bincount(self._query[start:end], minlength=self._shape[1])
            start = end
        return np.cumsum(counts, axis=0)

    def sum(self, terms: Floats) -> Floats:
        """(n_cutoffs, n_queries) sums, in rank order, of the items' terms within each cutoff."""
        ordered = terms[self._order]
        sums = np.empty(self._shape)
        total = np.zeros(self._shape[1])
        start = 0
        for row, end in zip(sums, self._ends, strict=True):
            np.add.at(total, self._query[start:end], ordered[start:end])
            row[:] = total
            start = end
        return sums


def ratio(numerator: NDArray[np.generic], denominator: NDArray[np.generic]) -> Floats:
    """Divide, with 0 where the denominator is 0."""
    quotient = np.zeros(numerator.shape)
    np.divide(numerator, denominator, out=quotient, where=denominator != 0)
    return quotient


def mean_of(values: Floats, n_more: int = 0, more: float | None = 0.0) -> float | None:
    """Average values, and ``n_more`` further ones that are all ``more``.

    The sum is sequential: NumPy's own adds pairwise, Python's compensates.

    Returns:
        The mean; None when there is nothing to average or ``more`` is None.
    """
    n_all = len(values) + n_more
    if n_all == 0 or more is None:
        return None
    total = float(np.add.accumulate(values)[-1]) if len(values) else 0.0
    return (total + n_more * more) / n_all


def discounts(rank: Ints) -> Floats:
    """``log2(rank + 1)`` from libm, as trec_eval has it; NumPy's differs in the last bit."""
    largest = int(rank.max(initial=0))
    return _discount_table(1 << largest.bit_length())[rank]


@lru_cache(maxsize=8)
def _discount_table(size: int) -> Floats:
    return np.array([math.log2(rank + 1) for rank in range(size)])
