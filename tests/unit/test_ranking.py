"""Measures over arrays: worked by hand, and against a plain loop, bit for bit."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import StageError
from schemas.families import FAMILIES
from schemas.measures import Measure, MeasureError
from tasks.finding import Judgements
from tasks.formulas import FORMULAS
from tasks.graded import Items, Pool, Ranked, mean_of, pool_judgements
from tasks.ranking import score, score_gains, score_ids

# Gold {a, b, c, d}, retrieved [a, x, b].
GAINS = np.array([[1, 0, 1, 0, 0]])
IDEAL = np.array([[1, 1, 1, 1]])
R = np.array([4])


def value(name: str, **changes: object) -> float:
    arguments = {"gains": GAINS, "n_relevant": R, "ideal": IDEAL, "n_returned": np.array([3])}
    return float(score_gains(measures=[Measure.parse(name)], **{**arguments, **changes})[0, 0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hit@1", 1.0),
        ("precision@5", 2 / 5),
        ("precision_returned@5", 2 / 3),
        ("precision_returned@2", 1 / 2),
        ("recall@5", 2 / 4),
        ("recall_capped@2", 1 / 2),
        ("f1@5", 2 * 0.4 * 0.5 / 0.9),
        ("rr@5", 1.0),
        ("ap@5", (1 / 1 + 2 / 3) / 4),
        ("ap_hits@5", (1 / 1 + 2 / 3) / 2),
        ("ap_capped@3", (1 / 1 + 2 / 3) / 3),
        ("dcg@5", 1 + 1 / 2),
        ("ndcg@5", (1 + 1 / 2) / (1 + 1 / math.log2(3) + 1 / 2 + 1 / math.log2(5))),
        ("r_precision", 2 / 4),
        ("rbp(p=0.5)", 0.5 * (1 + 0.25)),
        ("set_precision", 2 / 3),
        ("set_recall", 2 / 4),
        ("set_f1", 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4)),
    ],
)
def test_one_ranking_by_hand(name: str, expected: float) -> None:
    assert value(name) == pytest.approx(expected, abs=1e-15)


def test_average_precision_counts_what_was_missed_and_ap_hits_does_not() -> None:
    gains = np.array([[1, 0, 0, 1]])
    assert value("ap@4", gains=gains, n_relevant=np.array([3])) == (1 / 1 + 2 / 4) / 3
    assert value("ap_hits@4", gains=gains) == 0.75


def test_exponential_gain_of_grades() -> None:
    # grades 2, 1 retrieved; 3 missed: (3/1 + 1/log2 3) / (7/1 + 3/log2 3 + 1/2)
    expected = (3 + 1 / math.log2(3)) / (7 + 3 / math.log2(3) + 1 / 2)
    ideal = np.array([[3, 2, 1]])
    assert value("ndcg_exp@3", gains=np.array([[2, 1]]), ideal=ideal) == pytest.approx(expected)


def test_expected_reciprocal_rank_as_gdeval_computes_it() -> None:
    # grades 3, 0, 4 of 4: stops 7/16, 0, 15/16; 7/16 + 9/16 * 15/16 / 3
    gains = np.array([[3, 0, 4]])
    assert value("err@20", gains=gains) == pytest.approx(7 / 16 + 9 / 16 * 15 / 16 / 3)
    assert value("err@2", gains=gains) == 7 / 16


def test_err_counts_grades_above_its_greatest_as_the_greatest() -> None:
    assert value("err@1", gains=np.array([[1000]])) == 15 / 16
    assert value("err@1(max_grade=1000)", gains=np.array([[1000]])) == 1.0


def test_dcg_gains_are_worth_it_below_the_level_and_hits_are_not() -> None:
    gains, ideal = np.array([[1, 2]]), np.array([[2, 1]])
    values = score_gains(
        gains, np.array([1]), ideal, [Measure.parse("hit@1"), Measure.parse("dcg@1")], level=2
    )
    assert values.tolist() == [[0.0], [1.0]]


def test_bpref_penalises_judged_non_relevant_items_above() -> None:
    # n r n r over R = 2, N = 2: 1 - 1/2 and 1 - 2/2, over 2
    items = Items(np.zeros(4, int), np.array([1, 3, 4, 9]), np.array([0, 1, 0, 1]))
    pool = pool_judgements(np.zeros(4, int), np.array([0, 1, 0, 1]), n_queries=1, level=1)
    values = score(Ranked(items, np.array([9])), pool, [Measure.parse("bpref")])
    assert values.tolist() == [[0.25]]


def test_a_query_without_results_scores_zero_everywhere() -> None:
    none = np.zeros((1, 0), dtype=np.int64)
    measures = [Measure.parse(name) for name in EVERY if name.split("@")[0] not in JUDGED]
    values = score_gains(none, R, IDEAL, measures, n_returned=np.array([0]))
    assert not values.any()


def test_gains_cannot_give_measures_that_need_judged_zeros() -> None:
    with pytest.raises(MeasureError, match="do not say which items were judged"):
        score_gains(GAINS, R, IDEAL, [Measure.parse("bpref")])


def test_grades_so_high_that_their_power_is_no_float_stay_within_range() -> None:
    gains, ideal = np.array([[5000, 4999]]), np.array([[5000, 5000]])
    # 2^0 + 2^-1/log2(3), over 2^0 + 2^0/log2(3), both times 2^5000
    expected = (1 + 0.5 / math.log2(3)) / (1 + 1 / math.log2(3))
    assert value("ndcg_exp@2", gains=gains, ideal=ideal) == pytest.approx(expected)


def test_blocks_do_not_change_values(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    gains = generator.integers(0, 4, (50, 12)) * (generator.random((50, 12)) < 0.4)
    ideal = -np.sort(-gains, axis=1)
    n_relevant = (gains > 0).sum(axis=1)
    measures = [Measure.parse(name) for name in ("ap@10", "ndcg@5", "err@12", "rbp")]
    whole = score_gains(gains, n_relevant, ideal, measures)
    monkeypatch.setattr("tasks.ranking.BLOCK_CELLS", 30)
    assert (score_gains(gains, n_relevant, ideal, measures) == whole).all()


def test_ids_as_an_index_returns_them_give_the_values_of_their_gains() -> None:
    ids = np.array([[3, 8, 5, 9], [4, 6, -1, -1]])
    scores = np.array([[1.0, 2.0, 1.0, 1.0], [0.5, 0.25, 0.0, 0.0]])  # order: 8 9 5 3, and 4 6
    judged = Judgements(np.array([0, 0, 0, 0, 1, 1]), np.array([5, 3, 7, 8, 6, 4]))
    gain = np.array([2, 1, 3, 0, 1, -1])
    names = "ndcg@4 ap@4 precision_returned@4 bpref judged@2"
    measures = [Measure.parse(name) for name in names.split()]
    values = score_ids(ids, scores, judged, gain, measures)
    gains = np.array([[0, 0, 2, 1], [0, 1, 0, 0]])
    ideal = np.array([[3, 2, 1], [1, 0, 0]])
    expected = score_gains(
        gains, np.array([3, 1]), ideal, measures[:3], n_returned=np.array([4, 2])
    )
    assert (values[:3] == expected).all()
    assert values[3:].tolist() == [[0.0, 1.0], [0.5, 0.5]]  # 8 is judged 0, 9 and 4 are unjudged


def test_a_nan_score_or_an_id_twice_is_an_error() -> None:
    none = Judgements(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    arguments = (none, np.empty(0, dtype=np.int64), [Measure.parse("rr")])
    with pytest.raises(StageError, match="query 1 has id 4 twice"):
        score_ids(np.array([[4, 5], [4, 4]]), np.ones((2, 2)), *arguments)
    with pytest.raises(StageError, match="NaN"):
        score_ids(np.array([[4, 5]]), np.array([[1.0, np.nan]]), *arguments)
    score_ids(np.array([[4, -1], [-1, -1]]), np.array([[1.0, np.nan], [np.nan, 0]]), *arguments)


def test_every_family_over_items_has_a_formula() -> None:
    over_items = {name for name, family in FAMILIES.items() if family.scope in ("both", "trec")}
    assert set(FORMULAS) == over_items


JUDGED = ("bpref", "judged")
EVERY = [
    *("hit@2 precision@3 precision_returned@3 recall@3 recall_capped@2 f1@3 judged@3".split()),
    *("rr rr@3 ap ap@3 ap_hits ap_hits@3 ap_capped@2 ndcg ndcg@3 ndcg_exp ndcg_exp@4".split()),
    *("dcg dcg@4 r_precision bpref err err@3 err@5(max_grade=2) rbp rbp(p=0.95)".split()),
    *("set_precision set_recall set_f1".split()),
]
Grades = list[int | None]  # at each rank; None: unjudged


class Loop:
    """One query, one measure, one rank after the other; a method for each family."""

    def __init__(self, name: str, found: Grades, missed: list[int], level: int):
        self.measure = Measure.parse(name)
        self.level = level
        self.n_returned = len(found)
        self.k = self.measure.cutoff or len(found)
        self.cut = [None if grade is None or grade < 0 else grade for grade in found][: self.k]
        self.pool = [grade for grade in [*found, *missed] if grade is not None and grade >= 0]
        self.hits = [grade is not None and grade >= level for grade in self.cut]
        self.n_hits = sum(self.hits)
        self.R = sum(grade >= level for grade in self.pool)

    def value(self) -> float:
        return float(getattr(self, self.measure.family)())

    @staticmethod
    def over(numerator: float, denominator: float) -> float:
        return numerator / denominator if denominator else 0.0

    def hit(self) -> float:
        return self.n_hits > 0

    def precision(self) -> float:
        return self.n_hits / self.k

    def precision_returned(self) -> float:
        return self.over(self.n_hits, min(self.n_returned, self.k))

    def recall(self) -> float:
        return self.over(self.n_hits, self.R)

    def recall_capped(self) -> float:
        return self.over(self.n_hits, min(self.R, self.k))

    def f1(self) -> float:
        return self.over(2.0 * self.precision() * self.recall(), self.recall() + self.precision())

    def rr(self) -> float:
        return 1 / (self.hits.index(True) + 1) if self.n_hits else 0.0

    def precision_sum(self) -> float:
        total, so_far = 0.0, 0
        for rank, hit in enumerate(self.hits, 1):
            so_far += hit
            if hit:
                total += so_far / rank
        return total

    def ap(self) -> float:
        return self.over(self.precision_sum(), self.R)

    def ap_hits(self) -> float:
        return self.over(self.precision_sum(), self.n_hits)

    def ap_capped(self) -> float:
        return self.over(self.precision_sum(), min(self.R, self.k))

    def discounted(self, grades: Sequence[int | None], gain: Callable[[int], float]) -> float:
        total = 0.0
        for rank, grade in enumerate(grades[: self.measure.cutoff], 1):
            if grade:
                total += gain(grade) / math.log2(rank + 1)
        return total

    def normalised(self, gain: Callable[[int], float]) -> float:
        best = self.discounted(sorted(self.pool, reverse=True), gain)
        return min(self.over(self.discounted(self.cut, gain), best), 1.0)

    def dcg(self) -> float:
        return self.discounted(self.cut, float)

    def ndcg(self) -> float:
        return self.normalised(float)

    def ndcg_exp(self) -> float:
        return self.normalised(lambda grade: 2.0**grade - 1.0)

    def r_precision(self) -> float:
        return self.over(sum(self.hits[: self.R]), self.R)

    def bpref(self) -> float:
        total, above, least = 0.0, 0, min(len(self.pool) - self.R, self.R)
        for grade in self.cut:
            if grade is not None and grade < self.level:
                above += 1
            elif grade is not None:
                total += 1.0 - min(above, self.R) / least if above else 1.0
        return self.over(total, self.R)

    def err(self) -> float:
        top, total, passed = int(self.measure.parameter("max_grade")), 0.0, 1.0
        for rank, grade in enumerate(self.cut, 1):
            if grade:
                stop = (2.0 ** min(grade, top) - 1.0) / 2.0**top
                total += stop * passed / rank
                passed *= 1.0 - stop
        return min(total, 1.0)

    def rbp(self) -> float:
        p, total = self.measure.parameter("p"), 0.0
        for rank, hit in enumerate(self.hits, 1):
            if hit:
                total += p ** (rank - 1)
        return min((1.0 - p) * total, 1.0)

    def judged(self) -> float:
        return sum(grade is not None for grade in self.cut) / self.k

    set_precision = precision_returned
    set_recall = recall

    def set_f1(self) -> float:
        precision = self.precision_returned()
        return self.over(2.0 * precision * self.recall(), self.recall() + precision)


GRADE = st.integers(-2, 4) | st.integers(0, 1000)
QUERIES = st.lists(
    st.tuples(st.lists(GRADE | st.none(), max_size=30), st.lists(GRADE, max_size=30)),
    min_size=1,
    max_size=4,
)


def arrays(queries: list[tuple[Grades, list[int]]], level: int) -> tuple[Ranked, Pool]:
    rows = [
        (query, rank, grade)
        for query, (found, _) in enumerate(queries)
        for rank, grade in enumerate(found, 1)
        if grade is not None and grade >= 0
    ]
    judged = [
        (query, grade)
        for query, (found, missed) in enumerate(queries)
        for grade in [*found, *missed]
        if grade is not None
    ]
    items = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    judgements = np.array(judged, dtype=np.int64).reshape(-1, 2).T
    pool = pool_judgements(*judgements, n_queries=len(queries), level=level)
    return Ranked(Items(*items), np.array([len(found) for found, _ in queries])), pool


@given(queries=QUERIES, level=st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_every_measure_equals_a_plain_loop_to_the_last_bit(
    queries: list[tuple[Grades, list[int]]], level: int
) -> None:
    ranked, pool = arrays(queries, level)
    values = score(ranked, pool, [Measure.parse(name) for name in EVERY], level=level)
    for name, row in zip(EVERY, values.tolist(), strict=True):
        assert row == [Loop(name, *query, level).value() for query in queries], name


@given(queries=QUERIES, level=st.integers(1, 3))
@settings(max_examples=50, deadline=None)
def test_no_value_leaves_the_range_of_its_contract(
    queries: list[tuple[Grades, list[int]]], level: int
) -> None:
    measures = [Measure.parse(name) for name in EVERY]
    for measure, row in zip(
        measures, score(*arrays(queries, level), measures, level=level), strict=True
    ):
        assert np.isfinite(row).all()
        assert (row >= measure.contract.lowest).all()
        assert measure.contract.highest is None or (row <= measure.contract.highest).all()


def test_a_mean_is_a_sequential_sum() -> None:
    values = np.full(1000, 0.1)
    total = 0.0
    for number in values.tolist():
        total += number
    assert mean_of(values) == total / 1000
    assert mean_of(values) != float(values.sum()) / 1000  # NumPy's own sum is pairwise


def test_a_mean_of_nothing_is_none() -> None:
    assert mean_of(np.empty(0)) is None
