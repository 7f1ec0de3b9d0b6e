"""A run against its baseline, over a warehouse whose every value is chosen."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pytest
from scipy.stats import false_discovery_control, norm, permutation_test

from schemas.errors import UsageError
from schemas.gates import Gate, parse_gate
from tests.data.random_nights import GATES, compare, draw_nights, lose
from tests.data.stored_runs import Values, add, frames_of, run_id, store
from warehouse.compare import compare_runs, undecided
from warehouse.comparison_rows import COMPARISONS, BaselineRow, baselines_frame, comparisons_frame
from warehouse.comparisons import FIRST_NIGHT, LOCKED, Baseline, Comparison
from warehouse.validate import check_table

GENERATOR = np.random.default_rng(8)
NDCG = Gate(measure="ndcg@10", delta=0.02)


def compared(
    ours: Values, *theirs: Values, gates: Sequence[Gate] = (), **changes: Any
) -> Comparison:
    """Run 9 against the mean of the others."""
    runs = [frames_of(number, values) for number, values in enumerate(theirs, start=1)]
    connection = store(*runs, frames_of(9, ours))
    baseline = Baseline(tuple(run_id(number + 1) for number in range(len(theirs))))
    return compare_runs(connection, run_id(9), baseline, gates=gates, **changes)


def test_four_queries_by_hand() -> None:
    # differences -.3 -.1 0 +.1: mean -.3/4; of 2^3 signs, sums <= -.3: (-,-,-) -.5, (-,-,+) -.3,
    # (-,+,-) -.3; and >= .3 likewise three
    found = compared(
        {"ndcg@10": [0.2, 0.4, 0.5, 0.9], "hit@1": [0.0] * 4},
        {"ndcg@10": [0.5, 0.5, 0.5, 0.8], "hit@1": [0.0] * 4},
    ).measure("ndcg@10")
    assert found.difference == pytest.approx(-0.075)
    assert (found.mean, found.baseline_mean) == (pytest.approx(0.5), pytest.approx(0.575))
    assert (found.n_worse, found.n_better, found.n_unchanged, found.n_pairs) == (2, 1, 1, 4)
    assert found.p_value == 6 / 8
    deviation = np.sqrt((0.225**2 + 0.025**2 + 0.075**2 + 0.175**2) / 3)
    assert found.effect_size == pytest.approx(-0.075 / deviation)
    # two-sided at 0.05, two measures: z at 1 - 0.05/4, and at power 0.8
    z = norm.ppf(1 - 0.05 / 4) + norm.ppf(0.8)
    assert found.smallest_detectable == pytest.approx(z * deviation / 2)
    assert found.verdict == "not enough evidence"


def test_a_gate_is_one_sided_and_its_p_value_that_of_all_sign_flips() -> None:
    differences = np.array([-0.4, 0.1, -0.3, -0.2, -0.5, 0.05, -0.1, -0.3])
    baseline = np.full(8, 0.5)
    found = compared(
        {"ndcg@10": (baseline + differences).tolist()},
        {"ndcg@10": baseline.tolist()},
        gates=[NDCG],
    )
    flips = np.array(list(itertools.product([1, -1], repeat=8)))
    expected = (flips @ np.abs(differences) <= differences.sum() + 1e-12).mean()
    scipys = permutation_test(
        (differences,),
        np.mean,
        permutation_type="samples",
        n_resamples=np.inf,
        alternative="less",
    ).pvalue
    assert found.measure("ndcg@10").p_value == expected == pytest.approx(scipys)
    assert found.verdict == "not enough evidence"  # p is 0.0117


def test_drawn_p_values_and_intervals_of_many_queries_are_scipys() -> None:
    baseline = GENERATOR.beta(1, 1, 300)
    ours = np.clip(baseline + GENERATOR.normal(-0.01, 0.1, 300), 0, 1)
    found = compared(
        {"ndcg@10": ours.tolist()}, {"ndcg@10": baseline.tolist()}, gates=[NDCG]
    ).measure("ndcg@10")
    differences = ours - baseline
    theirs = permutation_test(
        (differences,),
        lambda sample, axis: sample.mean(axis=axis),
        permutation_type="samples",
        n_resamples=10_000,
        alternative="less",
        vectorized=True,
        rng=1,
    ).pvalue
    # two independent estimates of one p from 10,000 flips each
    assert found.p_value == pytest.approx(theirs, abs=4 * np.sqrt(2 * theirs * (1 - theirs) / 1e4))
    error = differences.std(ddof=1) / np.sqrt(300)
    assert found.low == pytest.approx(differences.mean() - 1.96 * error, abs=0.15 * error)
    assert found.loss_bound == pytest.approx(
        -differences.mean() + norm.ppf(0.99) * error, abs=0.25 * error
    )
    assert found.effect_size == pytest.approx(differences.mean() / differences.std(ddof=1))


def test_holm_is_over_the_gates_alone() -> None:
    values = [0.5] * 10
    ours = {
        "ndcg@10": [0.4] * 10,  # p 1/1024, of two: 2/1024
        "rr@10": [0.4] * 8 + [0.6] * 2,  # one-sided: (1 + 10 + 45)/1024
        "hit@1": [0.0] * 10,
        "hit@5": [0.0] * 9 + [1.0],
    }
    theirs = {"ndcg@10": values, "rr@10": values, "hit@1": [1.0] * 10, "hit@5": [0.0] * 10}
    gates = [Gate(measure="rr@10", delta=0.02), NDCG]
    found = compared(ours, theirs, gates=gates)
    assert [item.measure for item in found.measures] == ["rr@10", "ndcg@10", "hit@1", "hit@5"]
    assert [item.is_gated for item in found.measures] == [True, True, False, False]
    p = {item.measure: (item.p_value, item.p_adjusted) for item in found.measures}
    assert p["ndcg@10"] == (1 / 1024, 2 / 1024)
    assert p["rr@10"] == (56 / 1024, 56 / 1024)
    assert p["hit@1"] == (2 / 1024, 4 / 1024)  # the others: two-sided, a family of their own
    assert p["hit@5"] == (1.0, 1.0)
    assert (found.verdict, found.lead) == ("worse", "ndcg@10")


def test_several_baseline_runs_count_as_their_mean_where_all_have_a_value() -> None:
    found = compared(
        {"hit@1": [1.0, 1.0, 0.0, 1.0]},
        {"hit@1": [1.0, 0.0, 1.0, "no_relevant"]},
        {"hit@1": [1.0, 1.0, 0.0, 1.0]},
    ).measure("hit@1")
    assert found.n_pairs == 3
    assert found.baseline_mean == pytest.approx((1 + 0.5 + 0.5) / 3)
    assert (found.n_better, found.n_worse, found.n_unchanged) == (1, 1, 1)


def test_the_mean_of_equal_values_is_no_difference() -> None:
    found = compared({"rr@10": [0.1, 0.7]}, *({"rr@10": [0.1, 0.7]} for _ in range(6)))
    assert found.measure("rr@10").n_unchanged == 2


def test_a_baseline_run_of_another_meaning_is_left_out_and_without_any_nothing_is_compared() -> (
    None
):
    ours, theirs = {"hit@1": [1.0, 0.0]}, {"hit@1": [0.0, 0.0]}
    connection = store(
        frames_of(1, ours, key="old benchmark"), frames_of(2, theirs), frames_of(9, ours)
    )
    both = compare_runs(connection, run_id(9), Baseline((run_id(1), run_id(2)), "mean"))
    assert both.measure("hit@1").baseline_run_ids == (run_id(2),)
    assert both.measure("hit@1").baseline_mean == 0
    old = compare_runs(connection, run_id(9), Baseline((run_id(1),)))
    assert (old.verdict, old.measure("hit@1").verdict) == ("not comparable", "not comparable")
    assert "mean different things" in old.reason


def test_measures_that_one_side_lacks_are_not_comparable() -> None:
    found = compared(
        {"hit@1": [1.0], "rr@10": [1.0]}, {"hit@1": [1.0], "hit@5": [1.0]}, gates=[NDCG]
    )
    assert found.measure("rr@10").reason == "the baseline has no values of it"
    assert found.measure("ndcg@10").reason == "the run has no values of it"
    assert found.verdict == "not comparable"


def test_scores_that_failed_lower_the_coverage_and_do_not_decide() -> None:
    n = 200
    ours: list[float | str] = [0.4] * n
    theirs = {"ndcg@10": [0.5] * n}
    assert compared({"ndcg@10": ours}, theirs, gates=[NDCG]).verdict == "worse"
    for i in range(8):
        ours[i] = "failed"
    found = compared({"ndcg@10": ours}, theirs, gates=[NDCG]).measure("ndcg@10")
    # had all eight been 1: a mean loss of (192 x 0.1 - 8 x 0.5)/200 = 0.076
    assert (found.verdict, found.coverage, found.n_failed) == ("worse", 0.96, 8)
    for i in range(11):
        ours[i] = "failed"
    found = compared({"ndcg@10": ours}, theirs, gates=[NDCG]).measure("ndcg@10")
    assert found.verdict == "not enough evidence"
    assert "11 of 200 scores failed: coverage 0.945" in (found.reason or "")


def test_what_failed_scores_would_have_been_can_decide() -> None:
    n = 200
    ours: list[float | str] = [0.475] * n
    ours[:8] = ["failed"] * 8  # had they been 1: (192 x 0.025 - 8 x 0.5)/200 = 0.004 is no loss
    found = compared({"ndcg@10": ours}, {"ndcg@10": [0.5] * n}, gates=[NDCG])
    assert found.verdict == "not enough evidence"
    assert "it would be worse, but that depends on" in found.reason


def test_a_baseline_that_failed_counts_too() -> None:
    theirs: list[float | str] = [0.5] * 100
    theirs[:6] = ["failed"] * 6
    found = compared({"ndcg@10": [0.5] * 100}, {"ndcg@10": theirs}, gates=[NDCG])
    assert found.verdict == "not enough evidence"
    assert "coverage 0.940" in found.reason


def test_queries_without_truth_stay_out_without_a_word() -> None:
    missing: list[float | str] = ["no_relevant", "no_judged"]
    found = compared({"hit@1": [1.0, *missing]}, {"hit@1": [1.0, *missing]}).measure("hit@1")
    assert (found.n_pairs, found.n_failed, found.coverage) == (1, 0, 1.0)


def test_equal_rankings_and_labels_are_the_same() -> None:
    values = {"ndcg@10": [0.5, 0.25]}
    connection = store(frames_of(1, values, rankings="x"), frames_of(2, values, rankings="x"))
    found = compare_runs(connection, run_id(2), Baseline((run_id(1),)), gates=[NDCG])
    assert found.verdict == "same"
    assert "the rankings and labels are those of the baseline" in found.reason


def test_where_lower_is_better_a_rise_is_a_loss() -> None:
    gate = Gate(measure="ndcg@10", delta=0.02, direction="lower")
    found = compared({"ndcg@10": [0.6] * 20}, {"ndcg@10": [0.5] * 20}, gates=[gate])
    assert found.verdict == "worse"
    assert found.measure("ndcg@10").n_worse == 20
    assert len(found.lost_query_ids) == 20
    assert found.measure("ndcg@10").loss_bound == pytest.approx(0.1)


def test_the_ten_that_lost_most_come_with_their_texts() -> None:
    baseline = [1.0] * 15
    ours = [1.0 - i / 20 for i in range(15)]
    found = compared({"ndcg@10": ours}, {"ndcg@10": baseline})
    assert [loss.query_id for loss in found.losers] == [f"q{i:05d}" for i in range(14, 4, -1)]
    assert found.losers[0].text == "What is q00014?"
    assert found.losers[0].difference == pytest.approx(-0.7)
    assert len(found.lost_query_ids) == 14
    assert found.lost_query_ids[-1] == "q00001"


def test_slices_are_tested_and_adjusted_over_all_of_them() -> None:
    n = 60
    tags = [["en" if i % 2 else "fr", *(["rare"] if i < 3 else [])] for i in range(n)]
    baseline = GENERATOR.random(n)
    drop = np.where(np.arange(n) % 2 == 0, 0.1, 0.0) + GENERATOR.normal(0, 0.02, n)
    values = {"ndcg@10": (baseline - drop).clip(0, 1).tolist()}
    connection = store(
        frames_of(1, {"ndcg@10": baseline.tolist()}, tags=tags), frames_of(2, values, tags=tags)
    )
    found = compare_runs(connection, run_id(2), Baseline((run_id(1),)), gates=[NDCG])
    assert [(item.tag, item.n_pairs) for item in found.slices] == [("fr", 30), ("en", 30)]
    assert [item.verdict for item in found.slices] == ["worse", "not enough evidence"]
    p = [item.p_value or 0 for item in found.slices]
    adjusted = [item.p_adjusted for item in found.slices]
    assert adjusted == pytest.approx(false_discovery_control(p).tolist())
    assert found.slices[0].low is not None
    assert found.slices[0].low < -0.09 < (found.slices[0].high or 0)


def with_summaries(
    numbers: Sequence[int], banks: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]
) -> duckdb.DuckDBPyConnection:
    """Two queries' question banks (the second run's second one differs), and their answers."""
    summary = {"judge": "lexical", "contexts": "reference"}
    config = {"name": "handbook", "measures": ["hit@1"], "summary": summary}
    connection = store(
        *(
            frames_of(
                number,
                {"hit@1": [1.0, 1.0], "qa": [float(answer) for answer in given]},
                config=config,
            )
            for number, given in zip(numbers, answers, strict=True)
        )
    )
    for number, bank, given in zip(numbers, banks, answers, strict=True):
        for i, (question, answer) in enumerate(zip(bank, given, strict=True)):
            row = {"run_id": run_id(number), "query_id": f"q{i:05d}", "question_index": 0}
            add(connection, "summary_questions", [{**row, "question": question, "answer": answer}])
    return connection


def test_summary_scores_are_compared_where_the_same_was_asked() -> None:
    connection = with_summaries([1, 2], [["A?", "B?"], ["A?", "C?"]], ["11", "00"])
    found = compare_runs(connection, run_id(2), Baseline((run_id(1),)))
    assert found.measure("hit@1").n_pairs == 2
    assert found.measure("qa").n_pairs == 1
    assert found.measure("qa").difference == -1
    (flip,) = found.flips
    assert (flip.question, flip.answer, flip.baseline_answer) == ("A?", "0", "1")


def test_a_gate_on_summary_scores_needs_reference_contexts() -> None:
    gate = Gate(measure="qa", delta=0.1)
    connection = with_summaries([1, 2], [["A?", "B?"], ["A?", "B?"]], ["11", "00"])
    pair = run_id(2), Baseline((run_id(1),))
    assert compare_runs(connection, *pair, gates=[gate]).measure("qa").n_pairs == 2
    for contexts in ('"retrieved"', "null"):  # null: the benchmark has no reference contexts
        connection.execute(
            "UPDATE runs SET config = json_merge_patch(config, ?)",
            [f'{{"summary": {{"contexts": {contexts}, "judge": "lexical"}}}}'],
        )
        found = compare_runs(connection, *pair, gates=[gate]).measure("qa")
        assert found.verdict == "not comparable"
        assert "summary.contexts = 'reference'" in (found.reason or "")
        assert compare_runs(connection, *pair).measure("qa").n_pairs == 2
    connection.execute("UPDATE queries SET reference_contexts = ['given']")
    assert compare_runs(connection, *pair, gates=[gate]).measure("qa").n_pairs == 2


def test_a_judge_that_moved_is_not_compared() -> None:
    found = compared({"qa": [0.5]}, {"qa": [0.9]}, refused={"qa": "judge moved"}, measures=["qa"])
    assert (found.verdict, found.reason) == ("not comparable", "judge moved")


def test_the_judges_noise_widens_what_is_known() -> None:
    ours, theirs = {"qa": [0.4] * 50}, {"qa": [0.5] * 50}
    quiet = compared(ours, theirs, measures=["qa"])
    noisy = compared(ours, theirs, measures=["qa"], noise={"qa": 0.1})
    item = noisy.measure("qa")
    # each side's mean moves by 0.1/sqrt(50); 95 % one-sided
    half = norm.ppf(0.95) * 0.1 * np.sqrt(2 / 50)
    assert item.low == pytest.approx(-0.1 - half)
    assert item.high == pytest.approx(-0.1 + half)
    assert item.verdict == quiet.measure("qa").verdict == "worse"
    drowned = compared(ours, theirs, measures=["qa"], noise={"qa": 0.4}).measure("qa")
    assert drowned.verdict == "not enough evidence"


def test_the_first_night_is_not_comparable_and_a_locked_warehouse_no_evidence() -> None:
    first = compared({"ndcg@10": [0.5]}, gates=[NDCG])
    assert (first.verdict, first.reason) == ("not comparable", FIRST_NIGHT)
    assert first.measure("ndcg@10").reason == FIRST_NIGHT
    locked = undecided(run_id(9), Baseline((run_id(1),)), reason=LOCKED, gates=[NDCG])
    assert (locked.verdict, locked.reason) == ("not enough evidence", LOCKED)
    for comparison in (first, locked):
        assert check_table("comparisons", comparisons_frame(comparison)) == []


def test_a_run_that_failed_says_so() -> None:
    connection = store(frames_of(1, {"ndcg@10": [0.5]}), frames_of(2, {"ndcg@10": [0.5]}))
    failed = "UPDATE runs SET status = 'failed', status_reason = 'no disk' WHERE run_id = ?"
    connection.execute(failed, [run_id(2)])
    connection.execute("DELETE FROM run_metrics WHERE run_id = ?", [run_id(2)])
    found = compare_runs(connection, run_id(2), Baseline((run_id(1),)), gates=[NDCG])
    assert found.reason == f"the run has no values of it: run {run_id(2)} failed (no disk)"
    found = compare_runs(connection, run_id(2), Baseline((run_id(1),)))
    assert (found.verdict, found.measures) == ("not comparable", ())
    assert found.reason == f"the run has no values: run {run_id(2)} failed (no disk)"


def test_runs_that_are_missing_or_equal_are_refused() -> None:
    connection = store(frames_of(1, {"hit@1": [1.0]}))
    with pytest.raises(UsageError, match="not in the warehouse"):
        compare_runs(connection, run_id(1), Baseline((run_id(2),)))
    with pytest.raises(UsageError, match="with itself"):
        compare_runs(connection, run_id(1), Baseline((run_id(1),)))


def test_a_comparison_becomes_rows_that_its_table_takes() -> None:
    tags = [["en"]] * 8
    ours = {"ndcg@10": [0.4] * 8, "hit@1": [1.0] * 8}
    theirs = {"ndcg@10": [0.5] * 8, "hit@1": [1.0] * 8}
    connection = store(frames_of(1, theirs, tags=tags), frames_of(2, ours, tags=tags))
    found = compare_runs(connection, run_id(2), Baseline((run_id(1),), "pinned"), gates=[NDCG])
    frame = comparisons_frame(found, details={"differs": ["index"]})
    assert check_table("comparisons", frame) == []
    connection.register("rows", frame.to_arrow())
    connection.execute("INSERT INTO comparisons BY NAME SELECT * FROM rows")
    stored = connection.execute(
        "SELECT measure, tag, verdict, is_gated, baseline, difference, details FROM comparisons "
        "ORDER BY is_gated DESC, measure, tag"
    ).fetchall()
    assert [row[:5] for row in stored] == [
        ("ndcg@10", None, "worse", True, "pinned"),
        ("hit@1", None, "same", False, "pinned"),
        ("ndcg@10", "en", "worse", False, "pinned"),
    ]
    details = json.loads(stored[0][6])
    assert details["differs"] == ["index"]
    assert details["comparison"]["verdict"] == "worse"
    assert details["comparison"]["reason"] == found.reason
    assert len(details["lost_most"]) == 8


@pytest.mark.parametrize(
    ("column", "value", "rule"),
    [
        ("verdict", "fail", "isin"),
        ("p_value", 0.0, "greater_than"),
        ("n_worse", 3, "counts_add_up"),
        ("difference", None, "numbers_exactly_with_pairs"),
        ("verdict", "not comparable", "no_verdict_without_reason"),
        ("details", "{", "str_matches"),
        ("difference", float("nan"), "floats_are_finite"),
    ],
)
def test_a_bad_comparison_is_refused_by_name(column: str, value: Any, rule: str) -> None:
    import polars as pl

    found = compared({"ndcg@10": [0.4] * 8}, {"ndcg@10": [0.5] * 8}, gates=[NDCG])
    frame = comparisons_frame(found).with_columns(
        pl.lit(value, dtype=COMPARISONS[column]).alias(column)
    )
    assert any(refusal.rule.startswith(rule) for refusal in check_table("comparisons", frame))


def test_a_decision_on_a_baseline_has_an_author_and_a_reason() -> None:
    row = BaselineRow(experiment="handbook", run_id=run_id(1), author="eve", reason="new model")
    assert check_table("baselines", baselines_frame([row])) == []
    silent = BaselineRow(experiment="handbook", run_id=run_id(1), author="eve", reason="")
    assert check_table("baselines", baselines_frame([silent]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ndcg@10", "expected MEASURE:DELTA"),
        ("ndcg@10:x", "expected MEASURE:DELTA"),
        ("ndcg@10:0.1:0.1:0.1", "expected MEASURE:DELTA"),
        ("ndgc@10:0.1", "there is no 'ndgc'"),
        ("ndcg@10:0", "greater than 0"),
        ("ndcg@10:nan", "delta"),
        ("ndcg@10:0.1:0.5", "less than 0.5"),
        ("ndcg@10:2", "lies between 0 and 1: no loss could be that large"),
        ("hit@1:1", "lies between 0 and 1: no loss could be that large"),
    ],
)
def test_a_gate_that_is_not_one_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match="gate") as refused:
        parse_gate(text)
    assert words in str(refused.value)


def test_a_gate_reads_as_it_is_written() -> None:
    assert parse_gate(" ndcg@010 : 0.02") == NDCG
    assert parse_gate("rbp(p=0.8):0.02:0.05").alpha == 0.05
    assert parse_gate("dcg@10:2").delta == 2  # unbounded above: so large a loss is possible


def test_the_same_seed_gives_the_same_numbers() -> None:
    ours = {"ndcg@10": GENERATOR.random(40).tolist()}
    theirs = {"ndcg@10": GENERATOR.random(40).tolist()}
    first, second = (compared(ours, theirs, gates=[NDCG]).measures for _ in range(2))
    assert first == second
    other = compared(ours, theirs, gates=[NDCG], seed=1).measures
    assert other[0].p_value != first[0].p_value


def test_like_nights_raise_few_alarms_and_a_loss_of_twice_delta_is_seen() -> None:
    # A reduced version of tests/benchmarks/simulate_nights.py: alpha 0.01 over 400 nights gives 4
    # alarms, three standard errors are 6 more.
    generator = np.random.default_rng(20261130)
    n_alarms = n_seen = 0
    for seed in range(400):
        n_baselines = 1 if seed % 2 else 5
        n_queries = int(generator.integers(50, 200))
        nights = draw_nights(generator, n_queries, 1 + n_baselines, jitter=0.6, share=0.5)
        found = compare(nights[0], nights[1:], n_resamples=1000, seed=seed)
        n_alarms += any(item.verdict == "worse" for item in found)
    assert n_alarms <= 10
    for seed in range(40):
        nights = draw_nights(generator, 800, 2, jitter=0.3, share=0.2)
        worse = lose(generator, nights[0], 2 * GATES[2].delta, 2)
        found = compare(worse, nights[1:], n_resamples=1000, seed=seed)
        n_seen += any(item.verdict == "worse" for item in found)
    assert n_seen >= 32
