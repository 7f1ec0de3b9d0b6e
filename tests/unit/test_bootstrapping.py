"""Intervals are those of percentile bootstrap: exact where one can count, scipy's elsewhere."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import bootstrap

from tests.data.random_nights import draw_nights
from warehouse.bootstrapping import bootstrap_intervals, bootstrap_quantiles

GENERATOR = np.random.default_rng(3)


def test_intervals_of_three_values_are_those_of_all_27_draws() -> None:
    values = [0.0, 0.3, 0.9]
    means = np.array([np.mean(draw) for draw in product(values, repeat=3)])
    # 1/27 of the means are below 0.1 and 4/27 at most 0.1: no quantile of draws is elsewhere
    expected = np.quantile(means, [0.1, 0.9], method="inverted_cdf")
    low, high = bootstrap_intervals(np.array([values]), level=0.8, n_resamples=50_000)
    assert [low[0], high[0]] == pytest.approx(expected.tolist())


def test_intervals_come_near_scipys() -> None:
    values = GENERATOR.beta(0.5, 0.7, (3, 80))
    low, high = bootstrap_intervals(values, level=0.95, n_resamples=20_000, seed=1)
    for row, sample in enumerate(values):
        theirs = bootstrap(
            (sample,), np.mean, method="percentile", n_resamples=20_000, rng=9
        ).confidence_interval
        error = 0.03 * sample.std()  # a quantile of 20,000 draws has a standard error of 0.002 sd
        assert [low[row], high[row]] == pytest.approx([theirs.low, theirs.high], abs=error)


def test_a_query_without_a_value_is_as_if_it_were_not_there() -> None:
    values = GENERATOR.random((3, 40))
    values[1, ::3] = np.nan
    values[2] = np.nan
    low, high = bootstrap_intervals(values, n_resamples=500)
    alone = bootstrap_intervals(values[1:2, ~np.isnan(values[1])], n_resamples=500)
    assert (low[1], high[1]) == (alone[0][0], alone[1][0])
    assert np.isnan([low[2], high[2]]).all()
    assert not np.isnan([low[:2], high[:2]]).any()


def test_equal_values_leave_no_doubt() -> None:
    low, high = bootstrap_intervals(np.full((1, 30), 0.25), n_resamples=200)
    assert low[0] == high[0] == 0.25


def test_the_same_seed_gives_the_same_interval_and_another_one_another() -> None:
    values = GENERATOR.random((1, 50))
    first = bootstrap_quantiles(values, (0.05,), n_resamples=300, seed=1)
    assert (bootstrap_quantiles(values, (0.05,), n_resamples=300, seed=1) == first).all()
    assert (bootstrap_quantiles(values, (0.05,), n_resamples=300, seed=2) != first).all()


def test_blocks_do_not_change_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    values = GENERATOR.random((2, 64))
    whole = bootstrap_intervals(values, n_resamples=1000)
    monkeypatch.setattr("warehouse.bootstrapping._BLOCK_DRAWS", 64 * 100)
    assert np.allclose(bootstrap_intervals(values, n_resamples=1000), whole, atol=0)


def test_intervals_of_differences_between_like_nights_hold_zero_nearly_as_often_as_they_say() -> (
    None
):
    # 600 samples of 200 queries: three standard errors of 0.95 are 0.027; the percentile bootstrap
    # itself falls a little short with few queries.
    generator = np.random.default_rng(11)
    drawn = [draw_nights(generator, 200, 2, jitter=0.8, share=0.6) for _ in range(600)]
    for row in range(3):
        differences = np.array([nights[0, row] - nights[1, row] for nights in drawn])
        low, high = bootstrap_intervals(differences, n_resamples=1000)
        held = float(((low <= 0) & (high >= 0)).mean())
        assert 0.92 <= held <= 0.98
