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
    Segments,
    discounts,
    positions,
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

    def at(self, measure: Measure) -> int:
        """The row of the measure's cutoff in the arrays of (n_cutoffs, n_queries)."""
        return self._cutoffs.index(cutoff_of(measure))

    @cached_property
    def gained(self) -> Items:
        """Items with a gain above 0."""
        return self.judged.where(self.judged.gain > 0)

    @cached_property
    def hits(self) -> Items:
        """Relevant items."""
        return self.gained if self.level == 1 else self.gained.where(self.gained.gain >= self.level)

    @cached_property
    def n_hits(self) -> Ints:
        """Hits within each cutoff."""
        return self._hit_segments.count()

    @cached_property
    def n_judged(self) -> Ints:
        """Judged items within each cutoff."""
        return self._split(self.judged).count()

    @cached_property
    def first_hit(self) -> Ints:
        """(n_queries,) rank of the first hit; beyond every cutoff where there is none."""
        rank = np.full(self.n_queries, NO_CUTOFF + 1)
        is_first = np.flatnonzero(np.diff(self.hits.query, prepend=-1))
        rank[self.hits.query[is_first]] = self.hits.rank[is_first]
        return rank

    @cached_property
    def precision_sums(self) -> Floats:
        """The sum over hits of (hits so far / rank)."""
        terms = positions(self.hits.query, self.n_queries) / self.hits.rank
        return self._hit_segments.sum(terms)

    @cached_property
    def dcg(self) -> Floats:
        """Discounted cumulative gain, linear."""
        return self._gained_segments.sum(self.gained.gain / discounts(self.gained.rank))

    @cached_property
    def ideal_dcg(self) -> Floats:
        """The DCG of the best order of all judged items."""
        return self._discounted(self.pool.ideal, self.pool.ideal.gain)

    @cached_property
    def exponential_dcg(self) -> tuple[Floats, Floats]:
        """DCG and ideal DCG of gains 2^grade - 1, scaled alike where 2^grade is no float."""
        found, ideal = self.gained, self.pool.ideal
        largest = max(found.gain.max(initial=0), ideal.gain.max(initial=0))
        shift = max(0, int(largest) - LARGEST_EXPONENT)
        one = math.ldexp(1.0, -shift)
        return (
            self._discounted(found, _power_of_two(found.gain - shift) - one),
            self._discounted(ideal, _power_of_two(ideal.gain - shift) - one),
        )

    @cached_property
    def _gained_segments(self) -> Segments:
        return self._split(self.gained)

    @cached_property
    def _hit_segments(self) -> Segments:
        return self._gained_segments if self.hits is self.gained else self._split(self.hits)

    def _discounted(self, items: Items, gain: Ints | Floats) -> Floats:
        return self._split(items).sum(gain / discounts(items.rank))

    def _split(self, items: Items) -> Segments:
        return Segments(items, self._cutoffs, self.n_queries)


def cutoff_of(measure: Measure) -> int:
    """The cutoff, or one beyond every rank."""
    return NO_CUTOFF if measure.cutoff is None else measure.cutoff


def _power_of_two(exponent: Ints) -> Floats:
    """Exactly ``2^exponent``; 0 where it is too small for a float."""
    return np.ldexp(1.0, np.maximum(exponent, -2000).astype(np.int32))
