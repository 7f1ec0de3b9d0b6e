"""Which of several runs cannot be told from the best: each is tested against it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warehouse.randomisation import N_RESAMPLES, holm, randomisation_p

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

ALPHA = 0.05
RESAMPLES_PER_LEVEL = 20
"""Resamples, at least, for each time that the smallest level of Holm's steps fits into 1."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the tests against the best run say; arrays have an entry a run."""

    best: int  # row of the run with the highest mean, the first of several
    p_adjusted: Floats  # (n_runs,) Holm's; 1 for the best itself
    is_in_set: Flags  # (n_runs,) cannot be told from the best
    n_pairs: NDArray[np.int64]  # (n_runs,) queries that it and the best both scored
    n_resamples: int
    alpha: float

    @property
    def has_winner(self) -> bool:
        """Whether there were others, and all of them are worse."""
        return len(self.is_in_set) > 1 and int(self.is_in_set.sum()) == 1


def choose_best(values: Floats, *, alpha: float = ALPHA, seed: int = 0) -> Choice:
    """Test each run against the one with the highest mean, over the queries that both scored.

    Paired randomisation, two-sided since the best is known only from the same values, with Holm's
    correction over the n_runs - 1 tests. The smallest p value that n resamples can give is
    1 / (n + 1), and Holm asks it to be below alpha / tests: there are at least 20 x tests / alpha.
    That the best is named by the same values costs a little: of grids of 6 equal runs 6 % lose one.

    Args:
        values: (n_runs, n_queries) of one measure; NaN where a query has no value.
        alpha: chance, about, of leaving out any run that is as good as the best.
        seed: of the random signs, which all tests share.

    Raises:
        ValueError: there is no run, or one without any value.
    """
    has_value = ~np.isnan(values)
    if not len(values) or not has_value.any(axis=1).all():
        raise ValueError("every run needs a value of at least one query")
    means = np.where(has_value, values, 0.0).sum(axis=1) / has_value.sum(axis=1)
    best = int(np.argmax(means))
    others = np.flatnonzero(np.arange(len(values)) != best)
    n_resamples = max(N_RESAMPLES, math.ceil(RESAMPLES_PER_LEVEL * len(others) / alpha))
    is_pair = has_value & has_value[best]
    # A query that one of the two lacks is a difference of 0, which no flip of a sign changes.
    differences = np.where(is_pair, values - values[best], 0.0)
    p_adjusted = np.ones(len(values))
    if len(others):
        tested = randomisation_p(differences[others], n_resamples=n_resamples, seed=seed)
        p_adjusted[others] = holm(tested)
    return Choice(
        best=best,
        p_adjusted=p_adjusted,
        is_in_set=p_adjusted > alpha,
        n_pairs=is_pair.sum(axis=1),
        n_resamples=n_resamples,
        alpha=alpha,
    )
