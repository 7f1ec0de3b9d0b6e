"""Paired statistics of many measures at once: rows are measures, columns are queries."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from warehouse.bootstrapping import bootstrap_quantiles
from warehouse.randomisation import N_RESAMPLES, Tail, randomisation_tails

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

LEVEL = 0.95
"""Of the interval that is shown beside a difference."""
POWER = 0.8


@dataclass(frozen=True, slots=True)
class PairedStatistics:
    """(n_rows,) each; a row without pairs has NaN and p values of 1."""

    n_pairs: Counts
    n_better: Counts  # where the run's value is higher
    n_worse: Counts
    mean: Floats
    baseline_mean: Floats
    difference: Floats
    deviation: Floats  # sample standard deviation of the differences; NaN below two pairs
    low: Floats
    high: Floats
    lower_bound: Floats  # one-sided, at 1 - alpha of the row
    upper_bound: Floats
    p: dict[Tail, Floats]

    @property
    def effect_size(self) -> Floats:
        """Cohen's d_z, the mean difference over the differences' standard deviation.

        Cohen (1988), Statistical Power Analysis, section 2.3.5; Lakens (2013),
        doi:10.3389/fpsyg.2013.00863. NaN where the differences do not vary.
        """
        return np.divide(
            self.difference,
            self.deviation,
            out=np.full_like(self.difference, np.nan),
            where=self.deviation > 0,
        )


def paired_statistics(
    values: Floats,
    baseline: Floats,
    *,
    alphas: Floats,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
) -> PairedStatistics:
    """Compare rows of values over the queries that both sides have.

    Args:
        values: (n_rows, n_queries) of the run; NaN where there is none.
        baseline: likewise.
        alphas: (n_rows,) level of each row's one-sided bounds.
        n_resamples: of the randomisation and of the bootstrap.
        seed: of both.
    """
    differences = values - baseline
    is_pair = ~np.isnan(differences)
    n_pairs = is_pair.sum(axis=1)
    moved = np.where(is_pair, differences, 0.0)
    tail = (1 - LEVEL) / 2
    levels, of_row = np.unique(alphas, return_inverse=True)
    quantiles = bootstrap_quantiles(
        differences,
        (tail, 1 - tail, *levels, *(1 - levels)),
        n_resamples=n_resamples,
        seed=seed,
    )
    rows = np.arange(len(values))
    return PairedStatistics(
        n_pairs=n_pairs,
        n_better=(moved > 0).sum(axis=1),
        n_worse=(moved < 0).sum(axis=1),
        mean=_means(values, is_pair),
        baseline_mean=_means(baseline, is_pair),
        difference=_means(differences, is_pair),
        deviation=_deviations(differences, is_pair),
        low=quantiles[0],
        high=quantiles[1],
        lower_bound=quantiles[2 + of_row, rows],
        upper_bound=quantiles[2 + len(levels) + of_row, rows],
        p=randomisation_tails(moved, n_resamples=n_resamples, seed=seed),
    )


def smallest_detectable(deviation: Floats, n_pairs: Counts, alphas: Floats) -> Floats:
    """The mean difference that a one-sided test at ``alphas`` finds with power ``POWER``.

    (z_{1 - alpha} + z_{power}) s / sqrt(n), the normal approximation for paired differences: Cohen
    (1988), chapter 2; for retrieval experiments Webber, Moffat & Zobel (2008),
    doi:10.1145/1458082.1458158. Halve alpha for a two-sided test. NaN below two pairs.
    """
    normal = NormalDist()
    z = np.array([normal.inv_cdf(1 - alpha) for alpha in alphas]) + normal.inv_cdf(POWER)
    return np.asarray(z * deviation / np.sqrt(np.maximum(n_pairs, 1)))


def _means(values: Floats, is_pair: NDArray[np.bool_]) -> Floats:
    n = is_pair.sum(axis=1)
    totals = np.where(is_pair, values, 0.0).sum(axis=1)
    means: Floats = np.divide(totals, n, out=np.full(len(values), np.nan), where=n > 0)
    return means


def _deviations(differences: Floats, is_pair: NDArray[np.bool_]) -> Floats:
    n = is_pair.sum(axis=1)
    centred = np.where(is_pair, differences - _means(differences, is_pair)[:, None], 0.0)
    squares = (centred**2).sum(axis=1)
    variance: Floats = np.divide(squares, n - 1, out=np.full(len(n), np.nan), where=n > 1)
    return np.asarray(np.sqrt(variance))
