"""Every branch and boundary of the verdict, in the order in which they are looked at."""

from dataclasses import replace
from typing import get_args

import pytest

from schemas.comparison_tables import BASELINE_KINDS, VERDICTS
from warehouse.comparisons import BaselineKind, MeasureComparison, Verdict
from warehouse.verdicts import Evidence, Finding, decide, decide_together

LOSS = Finding(loss=0.05, p_loss=0.001, p_gain=0.999, loss_bound=0.08)
GAIN = Finding(loss=-0.05, p_loss=0.999, p_gain=0.001, loss_bound=-0.02)
LEVEL = Finding(loss=0.001, p_loss=0.4, p_gain=0.6, loss_bound=0.01)
UNSURE = Finding(loss=0.01, p_loss=0.2, p_gain=0.8, loss_bound=0.04)
GATED = Evidence(n_scored=100, observed=LOSS, delta=0.02, alpha=0.01)
UNGATED = Evidence(n_scored=100, observed=LOSS, delta=None, alpha=0.05)


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        # 1 not comparable comes before everything
        (replace(GATED, why_not_comparable="other labels", is_identical=True), "not comparable"),
        (replace(GATED, n_scored=0), "not comparable"),
        (replace(GATED, observed=None), "not comparable"),
        # 2 the very rankings and labels, before coverage and whatever a test says
        (replace(GATED, is_identical=True), "same"),
        (replace(GATED, is_identical=True, n_failed=90), "same"),
        # 3 coverage: the limit itself is enough
        (replace(GATED, n_scored=95, n_failed=5), "worse"),
        (replace(GATED, n_scored=94, n_failed=5), "not enough evidence"),
        (replace(GATED, n_scored=0, n_failed=9, observed=None), "not enough evidence"),
        (replace(GATED, n_scored=94, n_failed=5, min_coverage=0.9), "worse"),
        # 3 failed scores: whatever they would have been, the verdict has to be the same
        (replace(GATED, n_failed=1, completions=(LOSS, LOSS)), "worse"),
        (replace(GATED, n_failed=1, completions=(LOSS, UNSURE)), "not enough evidence"),
        (replace(GATED, n_failed=1, completions=(GAIN, LOSS)), "not enough evidence"),
        (replace(GATED, observed=LEVEL, completions=(LEVEL, UNSURE)), "not enough evidence"),
        (replace(GATED, observed=UNSURE, completions=(LOSS, LEVEL)), "not enough evidence"),
        (replace(GATED, n_failed=1, is_bounded=False), "not enough evidence"),
        # 4 worse: p at alpha and loss at delta still count
        (replace(GATED, observed=replace(LOSS, p_loss=0.01)), "worse"),
        (replace(GATED, observed=replace(LOSS, p_loss=0.0101)), "not enough evidence"),
        (replace(GATED, observed=replace(LOSS, loss=0.02)), "worse"),
        (replace(GATED, observed=replace(LOSS, loss=0.3 - 0.28)), "worse"),  # 0.01999…96
        (replace(GATED, observed=replace(LOSS, loss=0.0199)), "not enough evidence"),
        # 4 a loss beyond chance that is too small to matter, and surely so
        (replace(GATED, observed=replace(LOSS, loss=0.01, loss_bound=0.015)), "same"),
        # 5 better
        (replace(GATED, observed=GAIN), "better"),
        (replace(GATED, observed=replace(GAIN, p_gain=0.0101)), "same"),
        (replace(GATED, observed=replace(GAIN, loss=-0.0199)), "same"),
        # 6 the bound has to be below delta, not at it
        (replace(GATED, observed=LEVEL), "same"),
        (replace(GATED, observed=replace(LEVEL, loss_bound=0.0199)), "same"),
        (replace(GATED, observed=replace(LEVEL, loss_bound=0.02)), "not enough evidence"),
        (replace(GATED, observed=replace(LEVEL, loss_bound=None)), "not enough evidence"),
        # 7
        (replace(GATED, observed=UNSURE), "not enough evidence"),
        # the judge's noise: a loss has to stand out from it
        (replace(GATED, observed=replace(LOSS, loss_floor=0.001)), "worse"),
        (replace(GATED, observed=replace(LOSS, loss_floor=0.0)), "not enough evidence"),
        (
            replace(GATED, observed=replace(GAIN, gain_floor=-0.01, loss_bound=0.03)),
            "not enough evidence",
        ),
        # not gated: any difference beyond chance counts, and only stillness is the same
        (UNGATED, "worse"),
        (replace(UNGATED, observed=replace(LOSS, loss=1e-5)), "worse"),
        (replace(UNGATED, observed=replace(GAIN, p_loss=0.001)), "better"),
        (replace(UNGATED, observed=LEVEL), "not enough evidence"),
        (replace(UNGATED, observed=Finding(loss=0, p_loss=1, p_gain=1, has_moved=False)), "same"),
        (replace(UNGATED, observed=Finding(loss=0, p_loss=1, p_gain=1)), "not enough evidence"),
    ],
)
def test_the_first_rule_that_applies_decides(evidence: Evidence, verdict: str) -> None:
    assert decide(evidence).verdict == verdict


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (replace(GATED, n_scored=94, n_failed=6), "6 of 100 scores failed: coverage 0.940"),
        (replace(GATED, completions=(LOSS, UNSURE)), "it would be worse, but"),
        (replace(GATED, observed=UNSURE), "a loss of 0.0400 is not excluded, and 0.02 matters"),
        (replace(GATED, observed=LEVEL), "a loss would be below 0.0100, and 0.02 matters"),
        (replace(GATED, why_not_comparable="other labels"), "other labels"),
    ],
)
def test_the_reason_has_the_numbers(evidence: Evidence, words: str) -> None:
    assert words in (decide(evidence).reason or "")


def measured(verdict: Verdict, name: str = "ndcg@10", **changes: object) -> MeasureComparison:
    item = MeasureComparison(
        measure=name,
        contract_version=1,
        verdict=verdict,
        reason=None if verdict in ("worse", "better") else "because",
        is_gated=True,
        n_pairs=100,
        n_worse=23,
        n_better=4,
        difference=-0.031,
        low=-0.05,
        high=-0.012,
        p_adjusted=0.002,
        delta=0.02,
    )
    return replace(item, **changes)  # type: ignore[arg-type]


B, W, S, N, C = VERDICTS


@pytest.mark.parametrize(
    ("gates", "verdict"),
    [
        ((W, B, S, N, C), "worse"),
        ((C, W), "worse"),
        ((C, C), "not comparable"),
        ((N, B), "not enough evidence"),
        ((C, S), "not enough evidence"),
        ((C, B), "not enough evidence"),
        ((B, S), "better"),
        ((S, S), "same"),
    ],
)
def test_a_gain_never_hides_a_loss_nor_one_that_is_not_excluded(
    gates: tuple[Verdict, ...], verdict: str
) -> None:
    measures = [measured(found, f"hit@{i}") for i, found in enumerate(gates, start=1)]
    ungated = measured("worse", "rr@10", is_gated=False)
    decision, _ = decide_together([*measures, ungated])
    assert decision.verdict == verdict


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ((W, N, S), "worse"),
        ((B, N, C), "better"),
        ((W, B), "not enough evidence"),
        ((S, S, C), "same"),
        ((S, N), "not enough evidence"),
        ((C, C), "not comparable"),
        ((), "not comparable"),
    ],
)
def test_without_gates_all_measures_speak(found: tuple[Verdict, ...], verdict: str) -> None:
    measures = [measured(word, f"hit@{i}", is_gated=False) for i, word in enumerate(found, start=1)]
    decision, _ = decide_together(measures)
    assert decision.verdict == verdict


def test_the_line_of_the_morning_says_what_how_much_and_on_how_many() -> None:
    decision, lead = decide_together([measured("worse"), measured("better", "hit@1")])
    assert lead == "ndcg@10"
    assert decision.reason == (
        "ndcg@10 fell by 0.0310 [0.0120, 0.0500], p = 0.002, on 23 of 100 queries; better: hit@1"
    )


def test_of_several_losses_the_one_that_is_the_most_of_its_delta_leads() -> None:
    small = measured("worse", "hit@1", difference=-0.04, delta=0.04)
    large = measured("worse", "rr@10", difference=-0.03, delta=0.01)
    _, lead = decide_together([small, large])
    assert lead == "rr@10"


def test_the_words_are_those_of_the_table() -> None:
    assert get_args(Verdict) == VERDICTS
    assert get_args(BaselineKind) == BASELINE_KINDS
