"""Nights that differ by chance alone, with binary and graded measures, for false alarms and power.

Each query has one relevant item. Its rank is drawn anew each night around a strength of the query's
own, for the share of queries that jitters at all; hit@1, rr@10 and ndcg@10 follow from the rank.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from schemas.gates import Gate
from warehouse.compared_runs import ComparedRuns, MeanRow, RunSide
from warehouse.comparisons import MeasureComparison
from warehouse.pairing import RunValues
from warehouse.testing import Pairs, Settings, compare_measures

MEASURES = ("hit@1", "rr@10", "ndcg@10")
DELTA, ALPHA = 0.02, 0.01
GATES = tuple(Gate(measure=name, delta=DELTA, alpha=ALPHA) for name in MEASURES)
Floats = NDArray[np.float64]


def draw_nights(
    generator: np.random.Generator, n_queries: int, n_nights: int, *, jitter: float, share: float
) -> Floats:
    """(n_nights, 3, n_queries) values of nights that are alike but for chance."""
    strength = generator.normal(0.3, 1.5, n_queries)
    moves = generator.random(n_queries) < share
    noise = jitter * moves * generator.standard_normal((n_nights, n_queries))
    return score(np.floor(1 + np.exp(strength + noise) / 2))


def score(ranks: Floats) -> Floats:
    """hit@1, rr@10 and ndcg@10 of the ranks of the one relevant item, along a new second axis."""
    in_ten = ranks <= 10
    measures = (
        ranks == 1,
        np.where(in_ten, 1 / ranks, 0),
        np.where(in_ten, 1 / np.log2(ranks + 1), 0),
    )
    return np.stack([values.astype(np.float64) for values in measures], axis=-2)


def lose(generator: np.random.Generator, night: Floats, loss: float, row: int) -> Floats:
    """A night that misses at random so many queries that the mean of one measure falls by ``loss``.

    ``loss`` is what is lost in expectation.
    """
    mean = night[row].mean()
    misses = generator.random(night.shape[1]) < min(1.0, loss / max(mean, 1e-9))
    return np.where(misses, 0.0, night)


def compare(
    night: Floats, baseline: Floats, *, n_resamples: int, seed: int
) -> list[MeasureComparison]:
    """What a comparison decides: ``night`` (3, n), ``baseline`` (n_runs, 3, n)."""
    values = np.concatenate([night[None], baseline])
    n_runs, n_measures, n_queries = values.shape
    rows = np.ones((n_runs, n_measures), dtype=np.bool_)
    rows[0] = False
    pairs = Pairs(
        RunValues(
            tuple(str(i) for i in range(n_runs)),
            MEASURES,
            tuple(str(i) for i in range(n_queries)),
            values,
            np.zeros(values.shape, dtype=np.bool_),
        ),
        rows,
        np.ones((n_measures, n_queries), dtype=np.bool_),
    )
    means = {name: MeanRow(1, "key", n_queries, 0) for name in MEASURES}
    sides = [
        RunSide(str(i), "completed", None, (str(i), "labels"), "benchmark", None, means)
        for i in range(n_runs)
    ]
    runs = ComparedRuns(sides[0], tuple(sides[1:]), MEASURES)
    compared = compare_measures(pairs, runs, Settings(GATES, 0.95, n_resamples, seed, {}))
    return [compared[name] for name in MEASURES]
