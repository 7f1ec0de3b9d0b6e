"""The counts and sums that measures share, each computed once for all cutoffs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

import numpy as np

from schemas.measures import Measure
from tasks.graded import (
    NO_CUTOFF,
    Floats,
    Ints,
    Items,
    Pool,
    Ranked,
    counts_at,
    discounts,
    positions,
    sums_at,
)

LARGEST_EXPONENT = 1000
"""Gains of 2^grade are scaled down where a grade is above this: 2^1024 is no float."""


class Tally:
    """What was found, counted and summed up to each cutoff.

    Args:
        ranked: the judged items that were found.
        pool: what could be found.
        level: from this grade on an item is relevant.
        measures: whose cutoffs are needed.
    """

    def __init__(self, ranked: Ranked, pool: Pool, level: int, measures: Iterable[Measure]):
        self.pool = pool
        self.level = level
        self.judged = ranked.items
        self.n_returned = ranked.n_returned
        self.n_queries = len(pool.n_relevant)
        self._cutoffs = sorted({cutoff_of(measure) for measure in measures})

    @cached_property
    def gained(self) -> Items:
        """Items with a gain above 0."""
        return self.judged.where(self.judged.gain > 0)

    @cached_property
    def hits(self) -> Items:
        """Relevant items."""
        return self.gained.where(self.gained.gain >= self.level)

    @cached_property
    def n_hits(self) -> dict[int, Ints]:
        """Hits within each cutoff."""
        return counts_at(self._cutoffs, self.hits, self.n_queries)

    @cached_property
    def n_judged(self) -> dict[int, Ints]:
        """Judged items within each cutoff."""
        return counts_at(self._cutoffs, self.judged, self.n_queries)

    @cached_property
    def first_hit(self) -> Ints:
        """Rank of the first hit; beyond every cutoff where there is none."""
        rank = np.full(self.n_queries, NO_CUTOFF + 1)
        is_first = np.flatnonzero(np.diff(self.hits.query, prepend=-1))
        rank[self.hits.query[is_first]] = self.hits.rank[is_first]
        return rank

    @cached_property
    def precision_sums(self) -> dict[int, Floats]:
        """The sum over hits of (hits so far / rank)."""
        terms = positions(self.hits.query, self.n_queries) / self.hits.rank
        return sums_at(self._cutoffs, self.hits, terms, self.n_queries)

    @cached_property
    def dcg(self) -> dict[int, Floats]:
        """Discounted cumulative gain, linear."""
        return self._discounted(self.gained, self.gained.gain)

    @cached_property
    def ideal_dcg(self) -> dict[int, Floats]:
        """The DCG of the best order of all judged items."""
        return self._discounted(self.pool.ideal, self.pool.ideal.gain)

    @cached_property
    def exponential_dcg(self) -> tuple[dict[int, Floats], dict[int, Floats]]:
        """DCG and ideal DCG of gains 2^grade - 1, scaled alike where 2^grade is no float."""
        found, ideal = self.gained, self.pool.ideal
        largest = max(found.gain.max(initial=0), ideal.gain.max(initial=0))
        shift = max(0, int(largest) - LARGEST_EXPONENT)
        one = math.ldexp(1.0, -shift)
        return (
            self._discounted(found, _power_of_two(found.gain - shift) - one),
            self._discounted(ideal, _power_of_two(ideal.gain - shift) - one),
        )

    def _discounted(self, items: Items, gain: Ints | Floats) -> dict[int, Floats]:
        terms: Floats = gain / discounts(items.rank)
        return sums_at(self._cutoffs, items, terms, self.n_queries)


def cutoff_of(measure: Measure) -> int:
    """The cutoff, or one beyond every rank."""
    return NO_CUTOFF if measure.cutoff is None else measure.cutoff


def _power_of_two(exponent: Ints) -> Floats:
    """Exactly ``2^exponent``; 0 where it is too small for a float."""
    return np.ldexp(1.0, np.maximum(exponent, -2000).astype(np.int32))
