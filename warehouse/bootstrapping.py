"""How far a mean could lie from where it is: percentile bootstrap, all measures at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from warehouse.randomisation import N_RESAMPLES

Floats = NDArray[np.float64]

_BLOCK_DRAWS = 1 << 20  # queries drawn at once: 8 MB of indices, 8 MB of counts


def bootstrap_intervals(
    values: Floats, *, level: float = 0.95, n_resamples: int = N_RESAMPLES, seed: int = 0
) -> tuple[Floats, Floats]:
    """Percentile interval of each measure's mean over its queries.

    Efron & Tibshirani (1993), An Introduction to the Bootstrap, section 13.3: queries are drawn
    with replacement, and the interval lies between quantiles of the means.

    Args:
        values: (n_measures, n_queries); NaN where a query has no value of a measure.
        level: share of such intervals that hold the mean of the population, in the long run and
            with many queries; with few it is a little lower.
        n_resamples: how often queries are drawn.
        seed: of the draws, which measures with the same queries share.

    Returns:
        (n_measures,) lower ends and (n_measures,) upper ends; NaN for a measure without values.
    """
    tail = (1 - level) / 2
    low, high = bootstrap_quantiles(values, (tail, 1 - tail), n_resamples=n_resamples, seed=seed)
    return low, high


def bootstrap_quantiles(
    values: Floats,
    probabilities: Sequence[float],
    *,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
) -> Floats:
    """(n_probabilities, n_measures) quantiles of the resampled means; see above."""
    quantiles = np.full((len(probabilities), len(values)), np.nan)
    has_value = ~np.isnan(values)
    for rows, columns in _groups(has_value):
        means = _resampled_means(values[np.ix_(rows, columns)], n_resamples, seed)
        quantiles[:, rows] = np.quantile(means, probabilities, axis=0)
    return quantiles


def _groups(has_value: NDArray[np.bool_]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Measures with values of the same queries, with these queries; those without any left out."""
    patterns, members = np.unique(has_value, axis=0, return_inverse=True)
    return [
        (np.flatnonzero(members.ravel() == index), np.flatnonzero(pattern))
        for index, pattern in enumerate(patterns)
        if pattern.any()
    ]


def _resampled_means(values: Floats, n_resamples: int, seed: int) -> Floats:
    """(n_resamples, n_measures) means over queries drawn with replacement, in blocks."""
    generator = np.random.default_rng(seed)
    n_measures, n_queries = values.shape
    means = np.empty((n_resamples, n_measures))
    columns = np.ascontiguousarray(values.T)
    step = max(1, _BLOCK_DRAWS // n_queries)
    for low in range(0, n_resamples, step):
        n_rows = min(step, n_resamples - low)
        drawn = generator.integers(0, n_queries, size=(n_rows, n_queries))
        drawn += np.arange(0, n_rows * n_queries, n_queries)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=n_rows * n_queries)
        weights = counts.reshape(n_rows, n_queries).astype(np.float64)
        means[low : low + n_rows] = weights @ columns / n_queries
    return means
