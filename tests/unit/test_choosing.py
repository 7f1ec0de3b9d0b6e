"""The set of runs that cannot be told from the best."""

from __future__ import annotations

import math

import numpy as np
import pytest

from warehouse.choosing import choose_best


def test_twelve_copies_are_one_set_without_a_winner() -> None:
    values = np.tile(np.random.default_rng(1).random(100), (12, 1))
    choice = choose_best(values)
    assert choice.is_in_set.all()
    assert not choice.has_winner
    assert choice.p_adjusted.tolist() == [1.0] * 12


def test_p_values_are_exact_and_adjusted_as_holm_says() -> None:
    # Against the first run: eight queries lost by 1 (p = 2 / 2^8), three lost by 1 (2 / 2^3).
    best = np.ones(10)
    clearly, hardly = best.copy(), best.copy()
    clearly[:8] = 0
    hardly[:3] = 0
    choice = choose_best(np.stack([hardly, best, clearly]))
    assert choice.best == 1
    assert choice.p_adjusted.tolist() == [2 / 2**3, 1.0, 2 * 2 / 2**8]
    assert choice.is_in_set.tolist() == [True, True, False]
    assert not choice.has_winner


def test_a_winner_is_better_than_every_other() -> None:
    best, worse = np.ones(10), np.zeros(10)
    choice = choose_best(np.stack([worse, best]))
    assert (choice.best, choice.has_winner) == (1, True)
    assert choice.p_adjusted.tolist() == [2 / 2**10, 1.0]


@pytest.mark.parametrize(("n_runs", "least"), [(2, 10_000), (26, 10_000), (101, 40_000)])
def test_there_are_twenty_resamples_for_each_of_holms_smallest_levels(
    n_runs: int, least: int
) -> None:
    # 20 x tests / alpha: 25 tests at 0.05 are 10,000, 100 are 40,000
    choice = choose_best(np.zeros((n_runs, 3)))
    assert choice.n_resamples == least


def test_enough_resamples_that_a_hundred_tests_can_find_a_difference() -> None:
    generator = np.random.default_rng(7)
    values = generator.random((101, 60)) * 0.1
    values[40] += 1
    assert choose_best(values).has_winner


def test_a_query_that_one_side_lacks_is_no_pair() -> None:
    best, other = np.ones(6), np.zeros(6)
    other[0] = math.nan
    choice = choose_best(np.stack([best, other]))
    assert choice.n_pairs.tolist() == [6, 5]
    assert choice.p_adjusted[1] == 2 / 2**5


def test_a_run_that_is_as_good_is_seldom_left_out() -> None:
    # The best is named by the same values, so it is a little above alpha: 0.0625 of 400 grids.
    generator = np.random.default_rng(3)
    n_grids, n_wrong = 200, 0
    for _ in range(n_grids):
        values = (generator.random((6, 40)) < 0.5).astype(np.float64)
        n_wrong += not choose_best(values, alpha=0.05).is_in_set.all()
    assert n_wrong / n_grids <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / n_grids)


def test_runs_without_a_value_cannot_be_chosen_from() -> None:
    with pytest.raises(ValueError, match="every run needs a value"):
        choose_best(np.full((2, 3), math.nan))
