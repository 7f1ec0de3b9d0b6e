from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import StageError
from schemas.experiment import Summary
from schemas.frames import (
    CHUNKS,
    QUERIES,
    QUERY_METRICS,
    QUESTION_BANK,
    RANKINGS,
    SUMMARY_CONTEXTS,
    SUMMARY_QUESTIONS,
    SUMMARY_RESPONSES,
    SUMMARY_SCORES,
)
from tasks.gathering import gather_contexts
from tasks.judging import Answer, Failure, Question
from tasks.questioning import build_question_bank
from tasks.responding import summarize_queries
from tasks.summarizing import (
    SummariesScored,
    SummaryParts,
    combine_score,
    score_summaries,
    summary_metrics,
)


class ScriptedJudge:
    """Gives what it is told to, and counts what it is asked."""

    name = "scripted"
    version = "1"

    def __init__(
        self,
        phrases: list[str] | Failure = Failure("refused", "not scripted"),  # noqa: B008
        questions: list[Question] | Failure | None = None,
        answers: list[Answer] | Failure | None = None,
    ) -> None:
        self.phrases = phrases
        self.questions = questions
        self.answers = answers
        self.calls: list[tuple[str, int]] = []

    def find_key_phrases(self, contexts: Sequence[str]) -> list[list[str] | Failure]:
        self.calls.append(("phrases", len(contexts)))
        return [self.phrases for _ in contexts]

    def ask_questions(
        self, contexts: Sequence[str], key_phrases: Sequence[list[str]]
    ) -> list[list[Question] | Failure]:
        self.calls.append(("questions", len(contexts)))
        if self.questions is not None:
            return [self.questions for _ in contexts]
        return [[Question(f"{phrase}?", phrase) for phrase in found] for found in key_phrases]

    def answer_questions(
        self, summaries: Sequence[str], questions: Sequence[list[Question]]
    ) -> list[list[Answer] | Failure]:
        self.calls.append(("answers", len(summaries)))
        if self.answers is not None:
            return [self.answers for _ in summaries]
        return [[Answer("1") for _ in asked] for asked in questions]


class ScriptedGenerator:
    name = "scripted writer"

    def __init__(self, outcome: str | Failure) -> None:
        self.outcome = outcome
        self.seen: list[tuple[str, list[str]]] = []

    def summarize(
        self, queries: Sequence[str], contexts: Sequence[Sequence[str]]
    ) -> list[str | Failure]:
        self.seen = [(q, list(c)) for q, c in zip(queries, contexts, strict=True)]
        return [self.outcome for _ in queries]


def queries(*rows: dict[str, Any]) -> pl.DataFrame:
    empty = dict.fromkeys(QUERIES) | {"text": "what?"}
    return pl.DataFrame([empty | row for row in rows], schema=QUERIES)


CHUNK_TEXTS = {"a#0-9": "Anna runs", "b#0-9": "Boris ran", "c#0-3": "Cat"}
CHUNK_FRAME = pl.DataFrame(
    [(chunk_id, chunk_id[0], 0, len(t), t, "Title") for chunk_id, t in CHUNK_TEXTS.items()],
    schema=CHUNKS,
    orient="row",
)


def rankings(**of_query: list[str]) -> pl.DataFrame:
    rows = [
        (query_id, rank, chunk_id, chunk_id, -float(rank))
        for query_id, chunk_ids in of_query.items()
        for rank, chunk_id in enumerate(chunk_ids, start=1)
    ]
    return pl.DataFrame(rows, schema=RANKINGS, orient="row")


def run(
    frame: pl.DataFrame,
    judge: ScriptedJudge,
    ranked: pl.DataFrame | None = None,
    **config: Any,
) -> SummariesScored:
    """All three steps."""
    ranked = rankings() if ranked is None else ranked
    summary = Summary(**config)
    contexts = gather_contexts(frame, ranked, CHUNK_FRAME, summary)
    responses = summarize_queries(frame, ranked, CHUNK_FRAME, summary)
    bank = build_question_bank(contexts, summary, judge)
    assert contexts.schema == SUMMARY_CONTEXTS
    assert responses.schema == SUMMARY_RESPONSES
    assert bank.schema == QUESTION_BANK
    scored = score_summaries(responses, contexts, bank, summary, judge)
    assert scored.scores.schema == SUMMARY_SCORES
    assert scored.questions.schema == SUMMARY_QUESTIONS
    return scored


def one(query_id: str = "q", response: str | None = "s" * 183) -> dict[str, Any]:
    # 155 + a newline + 154 = 310 characters
    contexts = ["c" * 155, "d" * 154]
    return {"query_id": query_id, "response": response, "reference_contexts": contexts}


EIGHT = [str(number) for number in range(8)]
SEVEN_OF_EIGHT = [Answer("1")] * 7 + [Answer("0", "not there")]


def combine(**changes: Any) -> SummaryParts:
    worked = {
        "n_answered": 7,
        "n_questions": 8,
        "n_characters_summary": 183,
        "n_characters_contexts": 310,
        "coeff": 0.5,
        "length_penalty": True,
    }
    return combine_score(**(worked | changes))


# the score


def test_seven_of_eight_answers_give_the_known_score_to_the_last_bit() -> None:
    assert combine().summary_score == 0.6423387096775146


def test_contexts_and_answers_give_the_known_score_through_all_steps() -> None:
    scored = run(queries(one()), ScriptedJudge(EIGHT, answers=SEVEN_OF_EIGHT))
    row = scored.scores.row(0, named=True)
    assert row["summary_score"] == 0.6423387096775146
    assert (row["n_characters_contexts"], row["n_characters_response"]) == (310, 183)
    assert (row["status"], row["qa"], row["n_answered"]) == ("scored", 0.875, 7)


def test_without_length_penalty_the_score_is_qa() -> None:
    assert combine(length_penalty=False, coeff=0.9).summary_score == 0.875


def test_the_coefficient_weighs_conciseness() -> None:
    parts = combine(coeff=0.25)
    assert parts.summary_score == parts.qa * 0.75 + parts.conciseness * 0.25
    assert combine(coeff=0).summary_score == 0.875
    assert combine(coeff=1).summary_score == parts.conciseness


def test_a_summary_longer_than_its_contexts_has_no_conciseness_and_never_less() -> None:
    assert combine(n_characters_summary=900).conciseness == pytest.approx(0, abs=1e-12)
    assert combine(n_characters_summary=900).conciseness >= 0


@pytest.mark.parametrize(
    "nothing", [{"n_characters_summary": 0}, {"n_characters_contexts": 0}, {"n_questions": 0}]
)
def test_nothing_never_becomes_a_number(nothing: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="no score"):
        combine(**nothing)


@given(
    st.integers(1, 10**9),
    st.integers(1, 10**9),
    st.integers(1, 200),
    st.floats(0, 1),
    st.booleans(),
)
def test_scores_stay_within_their_range(
    n_summary: int, n_contexts: int, n_questions: int, coeff: float, length_penalty: bool
) -> None:
    for n_answered in (0, n_questions // 2, n_questions):
        parts = combine_score(
            n_answered=n_answered,
            n_questions=n_questions,
            n_characters_summary=n_summary,
            n_characters_contexts=n_contexts,
            coeff=coeff,
            length_penalty=length_penalty,
        )
        assert parts.qa is not None
        assert 0 <= parts.summary_score <= 1
        assert 0 <= parts.conciseness <= 1


# contexts and responses


def test_reference_contexts_are_judged_by_when_any_query_has_them() -> None:
    frame = queries(one("with"), {"query_id": "without"}, one("empty") | {"reference_contexts": []})
    contexts = gather_contexts(frame, rankings(), CHUNK_FRAME, Summary())
    assert contexts.select("query_id", "source").rows() == [("with", "reference")]


def test_retrieved_contexts_are_the_first_chunk_texts_without_titles() -> None:
    ranked = rankings(q=["c#0-3", "a#0-9", "b#0-9"])
    frame = queries({"query_id": "q"}, {"query_id": "nothing"})
    contexts = gather_contexts(frame, ranked, CHUNK_FRAME, Summary(n_contexts=2))
    assert contexts["source"].unique().to_list() == ["retrieved"]
    assert contexts["contexts"].to_list() == [["Cat", "Anna runs"], []]


def test_retrieved_contexts_can_be_asked_for_where_there_are_reference_contexts() -> None:
    config = Summary(contexts="retrieved")
    contexts = gather_contexts(queries(one()), rankings(q=["c#0-3"]), CHUNK_FRAME, config)
    assert contexts["contexts"].to_list() == [["Cat"]]


def test_the_same_contexts_have_the_same_digest() -> None:
    # sha256 of "Cat\nAnna runs"
    ranked = rankings(q=["c#0-3", "a#0-9"])
    contexts = gather_contexts(queries({"query_id": "q"}), ranked, CHUNK_FRAME, Summary())
    assert contexts["contexts_digest"].to_list() == [
        "7b025b45871a778deecba7eb033da363eae4a9fddcde8df3b838e8d203e16cd1"
    ]


def test_the_generator_reads_what_was_retrieved_where_the_benchmark_has_no_response() -> None:
    frame = queries(one("given"), one("bare", response=None))
    writer = ScriptedGenerator("written")
    responses = summarize_queries(
        frame, rankings(bare=["a#0-9", "c#0-3"]), CHUNK_FRAME, Summary(n_contexts=1), writer
    )
    assert writer.seen == [("what?", ["Anna runs"])]
    assert responses.select("query_id", "response", "response_source").rows() == [
        ("given", "s" * 183, "benchmark"),
        ("bare", "written", "scripted writer"),
    ]


def test_rows_name_the_generator_only_where_it_wrote_the_response() -> None:
    frame = queries(one("given"), one("bare", response=None))
    scored = run(frame, ScriptedJudge(["x"]), rankings(bare=["a#0-9"]))
    assert scored.scores.select("query_id", "generator", "judge").rows() == [
        ("given", None, "scripted"),
        ("bare", "extractive", "scripted"),
    ]


# the question bank


def test_equal_contexts_are_asked_about_once() -> None:
    judge = ScriptedJudge(EIGHT)
    run(queries(one("q"), one("r"), one("s")), judge)
    assert judge.calls == [("phrases", 1), ("questions", 1), ("answers", 3)]


def test_without_weight_no_question_is_made_or_asked() -> None:
    judge = ScriptedJudge(EIGHT)
    row = run(queries(one()), judge, coeff=1).scores.row(0, named=True)
    assert judge.calls == []
    assert (row["status"], row["qa"]) == ("scored", None)
    assert row["summary_score"] == row["conciseness"] == combine().conciseness


def test_a_coefficient_of_1_without_length_penalty_needs_the_questions() -> None:
    judge = ScriptedJudge(EIGHT)
    row = run(queries(one()), judge, coeff=1, length_penalty=False).scores.row(0, named=True)
    assert row["summary_score"] == 1


# what fails


@pytest.mark.parametrize(
    ("judge", "query", "status"),
    [
        (ScriptedJudge([]), one(), "no_key_phrases"),
        (ScriptedJudge(Failure("timeout", "after 60 s")), one(), "timeout"),
        (ScriptedJudge(EIGHT, questions=[]), one(), "no_questions"),
        (ScriptedJudge(EIGHT, questions=Failure("truncated", "cut")), one(), "truncated"),
        (ScriptedJudge(EIGHT, answers=Failure("rate_limited", "429")), one(), "rate_limited"),
        (ScriptedJudge(EIGHT, answers=SEVEN_OF_EIGHT[1:]), one(), "invalid_reply"),
        (ScriptedJudge(EIGHT, answers=[*SEVEN_OF_EIGHT, Answer("1")]), one(), "invalid_reply"),
        (ScriptedJudge(EIGHT, answers=[Answer("yes")] * 8), one(), "invalid_reply"),
        (ScriptedJudge(EIGHT, answers=[]), one(), "invalid_reply"),
        (ScriptedJudge(EIGHT), one(response=" \n"), "empty_response"),
        (ScriptedJudge(EIGHT), one() | {"reference_contexts": [" ", ""]}, "no_key_phrases"),
    ],
)
def test_what_fails_has_a_status_and_a_message_and_no_number(
    judge: ScriptedJudge, query: dict[str, Any], status: str
) -> None:
    frame = queries(query)
    scored = run(frame, judge)
    row = scored.scores.row(0, named=True)
    assert row["status"] == status
    assert row["message"]
    assert [row[name] for name in ("summary_score", "qa", "conciseness")] == [None] * 3
    assert scored.questions["answer"].drop_nulls().is_empty()
    values = summary_metrics(frame, scored.scores, Summary())
    assert values.select("value", "null_reason").unique().rows() == [(None, "failed")]


def test_blank_contexts_fail_where_no_question_is_needed_too() -> None:
    frame = queries(one() | {"reference_contexts": [" "]})
    assert run(frame, ScriptedJudge(), coeff=1).scores["status"].to_list() == ["no_key_phrases"]


def test_one_failure_leaves_the_other_queries_alone() -> None:
    frame = queries(one("q"), one("blank", response=""), one("r"))
    judge = ScriptedJudge(EIGHT)
    statuses = run(frame, judge).scores["status"].to_list()
    assert statuses == ["scored", "empty_response", "scored"]
    assert judge.calls[-1] == ("answers", 2)


def test_a_generator_that_fails_gives_its_status() -> None:
    frame, config = queries(one(response=None)), Summary()
    writer = ScriptedGenerator(Failure("refused", "no"))
    responses = summarize_queries(frame, rankings(), CHUNK_FRAME, config, writer)
    assert responses.select("response", "status", "message").rows() == [(None, "refused", "no")]


def test_a_judge_that_loses_an_item_is_an_error() -> None:
    class Forgetful(ScriptedJudge):
        def find_key_phrases(self, contexts: Sequence[str]) -> list[list[str] | Failure]:
            return []

    with pytest.raises(StageError, match="0 outcomes for 1 items"):
        run(queries(one()), Forgetful(EIGHT))


# rows


def test_questions_are_kept_with_their_answers_and_reasons() -> None:
    judge = ScriptedJudge(["Anna", "Boris"], answers=[Answer("1", "said"), Answer("0", "missing")])
    assert run(queries(one()), judge).questions.rows() == [
        ("q", 0, "Anna", "Anna?", "1", "said", "1"),
        ("q", 1, "Boris", "Boris?", "0", "missing", "0"),
    ]


def test_questions_that_were_not_answered_are_kept_with_the_reason() -> None:
    judge = ScriptedJudge(["Anna"], answers=Failure("timeout", "after 60 s"))
    assert run(queries(one()), judge).questions.rows() == [
        ("q", 0, "Anna", "Anna?", None, "after 60 s", None)
    ]


def test_summary_scores_become_measures_with_a_reason_for_each_missing_value() -> None:
    frame = queries(one("q"), {"query_id": "none"}, one("blank", response=" "))
    scored = run(frame, ScriptedJudge(EIGHT, answers=SEVEN_OF_EIGHT))
    values = summary_metrics(frame, scored.scores, Summary())
    assert values.schema == QUERY_METRICS
    of_score = values.filter(pl.col("measure") == "summary_score")
    assert of_score.select("query_id", "value", "null_reason").rows() == [
        ("q", 0.6423387096775146, None),
        ("none", None, "no_judged"),
        ("blank", None, "failed"),
    ]
    assert values["measure"].unique(maintain_order=True).to_list() == [
        "summary_score",
        "qa",
        "conciseness",
    ]


def test_qa_is_no_measure_where_it_was_not_asked() -> None:
    frame, config = queries(one()), Summary(coeff=1)
    values = summary_metrics(frame, run(frame, ScriptedJudge(), coeff=1).scores, config)
    assert values["measure"].to_list() == ["summary_score", "conciseness"]


def test_control_characters_and_ids_survive() -> None:
    text = "\x1b[31mAnna\x00 runs\u202e"
    frame = queries(one("007", response=text) | {"reference_contexts": [text + " far"]})
    scored = run(frame, ScriptedJudge(["Anna"]))
    assert scored.scores.select("query_id", "response").rows() == [("007", text)]
