"""The judge's anchor: what is asked, what is flipped, and when a judge has moved."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from scipy import stats

from schemas.errors import InputError
from schemas.experiment import Summary
from schemas.frames import SUMMARY_QUESTIONS
from schemas.gates import Gate
from tasks.anchors import AnchorItem, figures_of_anchor, judge_anchor, read_anchor
from tasks.judge_noise import noise_of, qa_by_repeat
from tasks.judging import Answer, Failure, Question
from tests.data.stored_runs import add, frames_of, run_id, store
from warehouse.anchors import (
    AnchorNight,
    Flips,
    Noise,
    count_flips,
    find_move,
    find_moves,
    learn_noise,
    p_of_flips,
    read_noise,
)
from warehouse.compare import compare_runs
from warehouse.comparisons import Baseline

ALL = "1" * 48


def test_the_built_in_set_speaks_three_languages_and_asks_48_questions() -> None:
    items = read_anchor(None)
    assert {item.anchor_id[-2:] for item in items} == {"en", "fr", "zh"}
    assert sum(len(item.questions) for item in items) == 48


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no item"),
        ("{", ":1: "),
        ('{"anchor_id": "a", "contexts": ["c"], "response": "r", "questions": []}', "questions"),
        (
            '{"anchor_id": "a", "contexts": ["c"], "response": "r", "questions": ["q"]}\n' * 2,
            "twic",
        ),
    ],
)
def test_a_file_that_is_no_anchor_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "anchor.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        read_anchor(str(path))
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_anchor(str(tmp_path / "none.jsonl"))


class _Judge:
    """Says yes to questions that hold the response's first word; asked under a sample."""

    name, version = "scripted", "1"

    def __init__(self, seen: list[str], sample: str = "0"):
        self.seen, self.sample = seen, sample

    def sampled(self, sample: str) -> _Judge:
        self.seen.append(sample)
        return _Judge(self.seen, sample)

    def find_key_phrases(self, contexts: Sequence[str]) -> Any:
        raise AssertionError("key phrases of an anchor are never asked for")

    ask_questions = find_key_phrases

    def answer_questions(
        self, summaries: Sequence[str], questions: Sequence[list[Question]]
    ) -> list[list[Answer] | Failure]:
        return [
            Failure("timeout", "too late")
            if text.startswith("slow")
            else [Answer(str(int(text.split()[0] in question.text))) for question in asked]
            for text, asked in zip(summaries, questions, strict=True)
        ]


def test_each_night_and_repeat_asks_under_a_sample_of_its_own() -> None:
    def item(name: str, response: str) -> AnchorItem:
        return AnchorItem(
            anchor_id=name, contexts=("x" * 310,), response=response, questions=("a b", "b", "a")
        )

    seen: list[str] = []
    items = [item("good", "a" + " " * 182), item("bad", "slow")]
    judged = judge_anchor(items, _Judge(seen), Summary(), night="2026-11-29", n_repeats=2)
    assert seen == ["anchor/2026-11-29", "anchor/2026-11-29/1", "anchor/2026-11-29/2"]
    assert [(one.answers, one.message) for one in judged] == [
        (("101", "101", "101"), None),
        ((None, None, None), "timeout: too late"),
    ]
    # 183 of 310 characters, two of three questions: the mean of 2/3 and 127/310
    assert judged[0].score == pytest.approx((2 / 3 + 127 / 310) / 2, abs=1e-9)
    figures = figures_of_anchor(items, judged)
    assert (figures["n_items"], figures["n_failed_items"]) == (2, 1)
    assert figures["score"] == judged[0].score


def test_flips_are_counted_over_what_was_answered_both_times() -> None:
    ours = {"a": "1100", "b": None, "c": "11", "new": "1"}
    theirs = {"a": "1011", "b": "11", "c": "10", "old": "0"}
    assert count_flips(ours, theirs) == Flips(6, to_no=2, to_yes=2)


@pytest.mark.parametrize(("n", "balance"), [(8, 8), (7, 7), (10, 8), (20, 4)])
def test_without_anything_to_learn_from_it_is_mcnemars_exact_test(n: int, balance: int) -> None:
    flips = Flips(48, to_no=(n + balance) // 2, to_yes=(n - balance) // 2)
    oracle = stats.binomtest(flips.to_no, n, 0.5).pvalue
    assert p_of_flips(flips, Noise()) == pytest.approx(oracle, rel=1e-12)


@pytest.mark.parametrize(
    ("flips", "noise"),
    [
        (Flips(48, to_no=4), Noise(0, 1)),
        (Flips(48, to_no=2), Noise(0, 30)),
        (Flips(48, to_no=9, to_yes=3), Noise(40, 10)),
        (Flips(48, to_yes=1), Noise(200, 20)),
    ],
)
def test_p_is_that_of_a_walk_as_long_as_the_noise_makes_it(flips: Flips, noise: Noise) -> None:
    length = stats.nbinom(noise.n_flips + 0.5, noise.n_pairs / (noise.n_pairs + 1))
    balance = abs(flips.to_no - flips.to_yes)
    oracle = 0.0
    for k in range(balance, 49):
        up = np.arange(k + 1)
        oracle += length.pmf(k) * stats.binom(k, 0.5).pmf(up)[np.abs(2 * up - k) >= balance].sum()
    assert p_of_flips(flips, noise) == pytest.approx(oracle + length.sf(48), rel=1e-9)


def night(number: int, answers: str, *repeats: str, judge: str = "j") -> AnchorNight:
    return AnchorNight(
        run_id(number), f"2026-11-{number:02}", "set", judge, 0.01, {"a": [answers, *repeats]}
    )


def flipped(*places: int, answers: str = ALL) -> str:
    return "".join("0" if place in places else one for place, one in enumerate(answers))


def test_a_judge_that_wavers_both_ways_has_not_moved_and_one_that_turns_strict_has() -> None:
    steady = [night(number, ALL, ALL) for number in range(1, 6)]
    noise, moves = learn_noise(steady)
    assert (noise, moves) == (Noise(0, 9), {})  # five pairs of repeats, four of nights
    assert find_move(night(6, flipped(3)), steady[-1], noise) is None
    move = find_move(night(6, flipped(1, 2, 3)), steady[-1], noise)
    assert move is not None
    assert "of 48 answers about its anchor 3 went from yes to no and 0 from no to yes" in str(move)

    wavering = [night(number, flipped(number, number + 9, number + 18)) for number in range(1, 9)]
    noise, moves = learn_noise(wavering)
    assert (noise, moves) == (Noise(6 * 7, 7), {})
    assert find_move(night(9, flipped(1, 2, 3, 4)), wavering[-1], noise) is None


def test_a_move_teaches_nothing_about_noise_and_another_judge_begins_anew() -> None:
    strict = flipped(*range(12))
    noise, moves = learn_noise([night(1, ALL), night(2, ALL), night(3, strict), night(4, strict)])
    assert (noise, list(moves)) == (Noise(0, 2), [run_id(3)])
    noise, moves = learn_noise([night(1, ALL), night(2, ALL), night(3, strict, judge="other")])
    assert (noise, moves) == (Noise(), {})


def test_a_steady_judge_is_called_moved_no_more_often_than_alpha() -> None:
    # 48 questions, each flipping its usual answer with chance 2 % a night; 4,000 pairs of nights
    # after 10 to learn from. One binomial standard error of 1 % is 0.16 %.
    generator = np.random.default_rng(5)
    n_moved = 0
    for _ in range(4_000):
        drawn = (generator.random((12, 48)) > 0.02).astype(int)
        nights = ["".join(map(str, row)) for row in drawn]
        noise = Noise()
        for earlier, later in pairwise(nights[:11]):
            noise = noise.with_pair(count_flips({"a": later}, {"a": earlier}))
        n_moved += p_of_flips(count_flips({"a": nights[11]}, {"a": nights[10]}), noise) <= 0.01
    assert n_moved / 4_000 <= 0.01 + 3 * 0.0016


def stored(answers: Mapping[int, str], qa: Mapping[int, Sequence[float]]) -> Any:
    """Runs whose judge gave these answers about the anchor, and these scores."""
    connection = store(
        *(
            frames_of(
                number,
                {"ndcg@10": [0.5] * len(values), "qa": values, "conciseness": values},
                rankings="same",
                night=date(2026, 11, number),
                config={"name": "a", "measures": ["ndcg@10"], "summary": {"contexts": "reference"}},
            )
            for number, values in qa.items()
        )
    )
    for number, text in answers.items():
        figures = {"anchor": "set", "judge": "j", "alpha": 0.01, "answers": {"a": [text]}}
        row = {"run_id": run_id(number), "position": 9, "stage": "judge_anchor"}
        row |= {"status": "completed", "cached": False, "figures": json.dumps(figures)}
        add(connection, "stages", [row])
    for number, values in qa.items():
        rows = [
            {"run_id": run_id(number), "query_id": f"q{index:05d}", "question_index": 0}
            | {"question": "Is it?", "answer": "1"}
            for index in range(len(values))
        ]
        add(connection, "summary_questions", rows)
    return connection


@pytest.fixture(scope="module")
def three_nights() -> duckdb.DuckDBPyConnection:
    """A steady judge for two nights; in the third it is strict, and every score falls."""
    strict = flipped(*range(12))
    qa = {1: [0.9, 0.8] * 20, 2: [0.9, 0.8] * 20, 3: [0.5, 0.6] * 20}
    connection: duckdb.DuckDBPyConnection = stored({1: ALL, 2: ALL, 3: strict}, qa)
    return connection


GATES = (Gate(measure="ndcg@10", delta=0.05), Gate(measure="qa", delta=0.05))


def test_a_judge_that_moved_makes_its_scores_not_comparable_and_nothing_else(
    three_nights: duckdb.DuckDBPyConnection,
) -> None:
    moved = compare_runs(three_nights, run_id(3), Baseline((run_id(2),)), gates=GATES)
    assert moved.verdict == "not enough evidence"  # one of two gates has nothing to say
    assert moved.reason == "not comparable: qa"
    assert moved.measure("ndcg@10").verdict == "same"
    assert moved.measure("qa").verdict == "not comparable"
    assert (moved.measure("qa").reason or "").startswith("the judge moved since 2026-11-02")
    assert moved.measure("conciseness").verdict != "not comparable"
    alone = compare_runs(three_nights, run_id(3), Baseline((run_id(2),)), gates=GATES[1:])
    assert alone.verdict == "not comparable"
    steady = compare_runs(three_nights, run_id(2), Baseline((run_id(1),)), gates=GATES)
    assert steady.measure("qa").verdict == "same"


def test_of_a_mean_only_the_nights_of_the_same_judge_count() -> None:
    strict = flipped(*range(12))
    qa = {number: [0.9] * 20 if number < 3 else [0.5] * 20 for number in range(1, 5)}
    connection = stored({1: ALL, 2: ALL, 3: strict, 4: strict}, qa)
    baseline = Baseline(tuple(run_id(number) for number in (1, 2, 3)), "mean")
    found = compare_runs(connection, run_id(4), baseline, gates=GATES).measure("qa")
    assert (found.verdict, found.baseline_run_ids) == ("same", (run_id(3),))


def test_a_run_without_anchor_is_compared_as_ever(
    three_nights: duckdb.DuckDBPyConnection,
) -> None:
    three_nights.execute("BEGIN")
    three_nights.execute("DELETE FROM stages WHERE run_id = ?", [run_id(3)])
    assert find_moves(three_nights, run_id(3), [run_id(2)]) == {}
    found = compare_runs(three_nights, run_id(3), Baseline((run_id(2),)), gates=GATES)
    three_nights.execute("ROLLBACK")
    assert found.measure("qa").verdict == "worse"


QUESTIONS = [("q1", "11"), ("q1", "10"), ("q2", "00"), ("q2", "00"), ("q3", None)]


def questions_frame(rows: Sequence[tuple[str, str | None]]) -> pl.DataFrame:
    frame = pl.DataFrame(
        {"query_id": [row[0] for row in rows], "answers": [row[1] for row in rows]},
        schema_overrides={"answers": pl.String},
    )
    more = [pl.lit(None, kind).alias(name) for name, kind in SUMMARY_QUESTIONS.items()]
    return frame.with_columns(column for column in more if column.meta.output_name() not in frame)


def test_the_noise_of_a_judge_is_the_spread_of_its_repeats() -> None:
    by_repeat = qa_by_repeat(questions_frame(QUESTIONS))
    assert sorted(by_repeat.rows()) == [("q1", 0, 1.0), ("q1", 1, 0.5), ("q2", 0, 0), ("q2", 1, 0)]
    # variances 0.125 and 0: their mean is 0.0625
    assert noise_of(by_repeat, Summary()) == {"qa": 0.25, "summary_score": 0.125}
    unpenalised = Summary(length_penalty=False)
    assert noise_of(by_repeat, unpenalised)["summary_score"] == 0.25
    assert noise_of(qa_by_repeat(questions_frame([("q1", "1")])), Summary()) == {}


def test_a_loss_within_the_judges_noise_is_no_evidence() -> None:
    qa = {1: [0.9, 0.8] * 20, 2: [0.84, 0.74] * 20}
    connection = stored({}, qa)
    baseline = Baseline((run_id(1),))
    assert (
        compare_runs(connection, run_id(2), baseline, gates=GATES).measure("qa").verdict == "worse"
    )
    row = {"run_id": run_id(2), "position": 10, "stage": "judge_again", "status": "completed"}
    row |= {"cached": False, "figures": json.dumps({"noise": {"qa": 0.2, "summary_score": 0.1}})}
    add(connection, "stages", [row])
    assert read_noise(connection, run_id(2)) == {"qa": 0.2, "summary_score": 0.1}
    noisy = compare_runs(connection, run_id(2), baseline, gates=GATES).measure("qa")
    assert noisy.verdict == "not enough evidence"
    certain = compare_runs(connection, run_id(2), baseline, gates=GATES, noise={}).measure("qa")
    assert noisy.difference == certain.difference
    assert certain.verdict == "worse"
