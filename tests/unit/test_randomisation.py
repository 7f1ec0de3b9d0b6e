"""P values are exact where they can be, and scipy agrees."""

import numpy as np
import pytest
from scipy.stats import permutation_test

from warehouse.randomisation import Tail, holm, randomisation_p

GENERATOR = np.random.default_rng(5)


def test_three_differences_of_one_sign_by_hand() -> None:
    # Of 8 ways to put signs only +++ and --- are as extreme: 2/8; one-sided 1/8, or all 8.
    differences = np.array([[0.3, 0.1, 0.2]])
    assert randomisation_p(differences).tolist() == [2 / 8]
    assert randomisation_p(differences, tail="greater").tolist() == [1 / 8]
    assert randomisation_p(differences, tail="less").tolist() == [1.0]


def test_zeros_do_not_count_as_differences() -> None:
    assert randomisation_p(np.array([[0.3, 0.0, 0.1, 0.2, 0.0]])).tolist() == [2 / 8]
    assert randomisation_p(np.zeros((2, 40))).tolist() == [1.0, 1.0]
    assert randomisation_p(np.zeros((1, 0))).tolist() == [1.0]


def test_sums_that_differ_by_rounding_alone_count_as_equal() -> None:
    # 0.1 + 0.2 - 0.3 is 5.6e-17: every way of flipping (+++, ---) of the zero sum is as extreme.
    assert randomisation_p(np.array([[0.1, 0.2, -0.3]])).tolist() == [1.0]


@pytest.mark.parametrize(
    ("tail", "alternative"), [("two-sided", "two-sided"), ("less", "less"), ("greater", "greater")]
)
def test_exact_p_values_are_scipys(tail: Tail, alternative: str) -> None:
    differences = GENERATOR.normal(0.2, 1, (6, 9)).round(1)
    expected = [
        permutation_test(
            (row[row != 0],),
            lambda sample, axis: sample.sum(axis=axis),
            permutation_type="samples",
            n_resamples=np.inf,
            alternative=alternative,
            vectorized=True,
        ).pvalue
        for row in differences
    ]
    p = randomisation_p(differences, tail=tail)
    # scipy counts ties within 1e-14, and adds nothing when it enumerates
    assert p.tolist() == pytest.approx(expected, abs=1e-12)


def test_the_exact_test_ends_where_there_are_more_ways_than_resamples() -> None:
    thirteen, fourteen = np.ones((1, 13)), np.ones((1, 14))
    assert randomisation_p(thirteen).tolist() == [2 / 2**13]
    p = randomisation_p(fourteen)[0] * 10_001
    assert p == pytest.approx(round(p))  # (count + 1) / (n + 1)
    assert p < 12


def test_drawn_p_values_come_near_exact_ones_and_are_the_same_every_time() -> None:
    differences = GENERATOR.normal(0.15, 1, (4, 12))
    exact = randomisation_p(differences, n_resamples=4096)
    drawn = randomisation_p(differences, n_resamples=4000)
    assert (drawn != exact).any()
    assert drawn == pytest.approx(exact, abs=5 * np.sqrt(0.25 / 4000))
    assert (randomisation_p(differences, n_resamples=4000) == drawn).all()


def test_a_p_value_is_never_zero() -> None:
    assert randomisation_p(np.ones((1, 500))).tolist() == [1 / 10_001]


def test_blocks_do_not_change_p_values(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = GENERATOR.normal(0.05, 1, (2, 64))  # whole bytes a row: blocks draw alike
    whole = randomisation_p(differences)
    monkeypatch.setattr("warehouse.randomisation._BLOCK_FLIPS", 64 * 100)
    assert (randomisation_p(differences) == whole).all()


def test_holm_steps_down_and_never_lowers_a_p_value() -> None:
    # sorted: .005*4, .01*3, .03*2, .04*1, each at least the one before
    p = np.array([0.01, 0.04, 0.03, 0.005])
    assert holm(p).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.9, 0.8])).tolist() == [1.0, 1.0]
    assert holm(np.empty(0)).tolist() == []
