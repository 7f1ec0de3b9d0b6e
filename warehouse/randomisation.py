"""Is a difference between two runs more than chance? Paired randomisation, Holm's correction."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Tail = Literal["two-sided", "less", "greater"]
TAILS: tuple[Tail, ...] = ("two-sided", "less", "greater")

N_RESAMPLES = 10_000
TOLERANCE = 1e-12
"""Of the sum of absolute differences: resamples within it of what was observed count as equal."""

_BLOCK_FLIPS = 1 << 21


def randomisation_p(
    differences: Floats,
    *,
    n_resamples: int = N_RESAMPLES,
    tail: Tail = "two-sided",
    seed: int = 0,
) -> Floats:
    """Test, for each measure, that paired differences have either sign with equal chance.

    Signs are flipped over the non-zero differences: all 2^m ways where these are no more than
    ``n_resamples``, which gives the exact p value, else at random: (count + 1) / (n + 1), Fisher's
    test as Smucker, Allan & Carterette (2007), doi:10.1145/1321440.1321528, use it.

    Args:
        differences: (n_measures, n_queries) value of one run minus that of the other.
        n_resamples: how many ways of flipping are looked at, at most.
        tail: ``greater`` asks whether the differences are above 0.
        seed: of the random signs, which all measures share.

    Returns:
        (n_measures,) p values in (0, 1]; 1 where no difference is other than 0.
    """
    return randomisation_tails(differences, n_resamples=n_resamples, seed=seed)[tail]


def randomisation_tails(
    differences: Floats, *, n_resamples: int = N_RESAMPLES, seed: int = 0
) -> dict[Tail, Floats]:
    """The p values of every tail from one set of resamples; see ``randomisation_p``."""
    p = np.ones((len(TAILS), len(differences)))
    n_nonzero = np.count_nonzero(differences, axis=1)
    is_exact = n_nonzero < max(1, n_resamples).bit_length()
    for index in np.flatnonzero(is_exact & (n_nonzero > 0)):
        row = differences[index][differences[index] != 0]
        flips = _all_flips(len(row))
        p[:, index] = _count_extreme(flips, row[None, :])[:, 0] / len(flips)
    drawn = np.flatnonzero(~is_exact)
    if len(drawn):
        moving = differences[drawn][:, (differences[drawn] != 0).any(axis=0)]
        p[:, drawn] = (_count_drawn(moving, n_resamples, seed) + 1) / (n_resamples + 1)
    return dict(zip(TAILS, p, strict=True))


def benjamini_hochberg(p: Floats) -> Floats:
    """Adjust p values of many tests so that few of what is found is chance.

    Benjamini & Hochberg (1995), doi:10.1111/j.2517-6161.1995.tb02031.x: the false discovery rate,
    step up; each is at least what it was.
    """
    n = len(p)
    order = np.argsort(p, kind="stable")[::-1]
    steps = np.minimum.accumulate(p[order] * n / np.arange(n, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def holm(p: Floats) -> Floats:
    """Adjust p values of one family: Holm (1979), step down; each is at least what it was."""
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def _all_flips(n: int) -> Floats:
    """(2^n, n) every way to flip signs: 1 where a sign is flipped, else 0."""
    ways = np.arange(1 << n)[:, None] >> np.arange(n)
    return (ways & 1).astype(np.float64)


def _count_drawn(differences: Floats, n_resamples: int, seed: int) -> Floats:
    """(n_tails, n_measures) how many of the drawn resamples are as extreme as the observed sum."""
    generator = np.random.default_rng(seed)
    n_queries = differences.shape[1]
    count = np.zeros((len(TAILS), len(differences)))
    step = max(1, _BLOCK_FLIPS // n_queries)
    for low in range(0, n_resamples, step):
        n_rows = min(step, n_resamples - low)
        bits = np.frombuffer(generator.bytes(n_rows * -(-n_queries // 8)), dtype=np.uint8)
        flips = np.unpackbits(bits.reshape(n_rows, -1), axis=1, count=n_queries)
        count += _count_extreme(flips.astype(np.float64), differences)
    return count


def _count_extreme(flips: Floats, differences: Floats) -> Floats:
    """(n_tails, n_measures) how many rows of flips give a sum as extreme as the observed one."""
    observed = differences.sum(axis=1)
    slack = TOLERANCE * np.abs(differences).sum(axis=1)
    sums = observed - 2.0 * (flips @ differences.T)
    counts = (
        np.count_nonzero(np.abs(sums) >= np.abs(observed) - slack, axis=0),
        np.count_nonzero(sums <= observed + slack, axis=0),
        np.count_nonzero(sums >= observed - slack, axis=0),
    )
    return np.array(counts, dtype=np.float64)
