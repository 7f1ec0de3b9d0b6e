"""How much of its contexts a summary keeps: three steps, each a frame in and a frame out.

Key phrases and closed questions come from the contexts alone and form the question bank; then
the questions are asked of the summary. What fails has a status and no number.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import polars as pl

from schemas.experiment import Summary
from schemas.frames import (
    QUERY_METRICS,
    SUMMARY_QUESTIONS,
    SUMMARY_SCORES,
)
from schemas.measures import Measure
from tasks.folding import fold_constants
from tasks.gathering import join_contexts
from tasks.judging import Answer, Failure, Judge, Question
from tasks.questioning import (
    BATCH,
    BLANK_CONTEXTS,
    answer_questions,
    make_judge,
    needs_questions,
    run_step,
)

Repeats = list[list[Answer]]
"""The answers to one summary's questions, once a repeat."""


@dataclass(frozen=True, slots=True)
class SummaryParts:
    """A summary score and what it is made of."""

    summary_score: float
    qa: float | None  # None: not asked, since it has no weight
    conciseness: float


def combine_score(
    *,
    n_answered: int,
    n_questions: int,
    n_characters_summary: int,
    n_characters_contexts: int,
    coeff: float,
    length_penalty: bool,
) -> SummaryParts:
    """The summary score of one query.

    ``qa = n_answered / n_questions``; ``conciseness = 1 - min(len(summary), len(contexts)) /
    (len(contexts) + 1e-10)``; ``qa (1 - coeff) + conciseness coeff`` with ``length_penalty``,
    else ``qa``. Written in the order of ragas' SummarizationScore, so that values agree bit for
    bit.

    Args:
        n_answered: answers that are "1".
        n_questions: answers; 0 only where qa has no weight.
        n_characters_summary: at least 1.
        n_characters_contexts: of the contexts joined by newlines, at least 1.
        coeff: the weight of conciseness, in [0, 1].
        length_penalty: whether conciseness has any weight.

    Returns:
        Values in [0, 1].

    Raises:
        ValueError: something empty would have to become 0 or 1.
    """
    if n_characters_summary < 1 or n_characters_contexts < 1:
        raise ValueError("an empty summary, or one of empty contexts, has no score")
    shorter = min(n_characters_summary, n_characters_contexts)
    conciseness = 1 - shorter / (n_characters_contexts + 1e-10)
    if n_questions == 0:
        if not length_penalty or coeff < 1:
            raise ValueError("without questions there is no score, unless qa has no weight")
        return SummaryParts(conciseness, None, conciseness)
    qa = n_answered / n_questions
    score = qa * (1 - coeff) + conciseness * coeff if length_penalty else qa
    return SummaryParts(score, qa, conciseness)


@dataclass(frozen=True, slots=True)
class SummariesScored:
    """The scores of one run's summaries with the reasoning behind them."""

    scores: pl.DataFrame  # SUMMARY_SCORES, one row a judged query
    questions: pl.DataFrame  # SUMMARY_QUESTIONS


def score_summaries(
    responses: pl.DataFrame,
    contexts: pl.DataFrame,
    bank: pl.DataFrame,
    config: Summary,
    judge: Judge | None = None,
) -> SummariesScored:
    """Ask the summaries the questions of their contexts, and combine the score.

    Args:
        responses: SUMMARY_RESPONSES.
        contexts: SUMMARY_CONTEXTS.
        bank: QUESTION_BANK.
        config: names the judge and the weights.
        judge: instead of the one that the configuration names.
    """
    judge = judge or make_judge(config)
    bank = bank.rename({"status": "bank_status", "message": "bank_message"})
    parts = [
        _score_cases(_join(part, contexts, bank), config, judge)
        for part in responses.iter_slices(BATCH)
    ]
    return SummariesScored(
        pl.concat([SUMMARY_SCORES.to_frame(), *(part.scores for part in parts)]),
        pl.concat([SUMMARY_QUESTIONS.to_frame(), *(part.questions for part in parts)]),
    )


def _join(responses: pl.DataFrame, contexts: pl.DataFrame, bank: pl.DataFrame) -> pl.DataFrame:
    """Each response with its contexts and their questions; a part at a time, for memory's sake."""
    return responses.join(contexts, on="query_id", maintain_order="left").join(
        bank, on="contexts_digest", how="left", maintain_order="left"
    )


def _score_cases(joined: pl.DataFrame, config: Summary, judge: Judge) -> SummariesScored:
    cases = joined.to_dicts()
    asked = [_questions_of(case, config) for case in cases]
    todo: list[tuple[str, list[Question]] | Failure] = [
        questions if isinstance(questions, Failure) else (case["response"], questions)
        for case, questions in zip(cases, asked, strict=True)
    ]
    answered = _answer_repeatedly(judge, todo, config.repeats)
    scores, rows = [], []
    for case, questions, answers in zip(cases, asked, answered, strict=True):
        scores.append(_score_row(case, answers, config, judge))
        if not isinstance(questions, Failure):
            rows.extend(_question_rows(case["query_id"], questions, answers))
    # The long texts come from the frame that holds them already, so that they are held once.
    given = joined.select("query_id", "response", "contexts_digest")
    return SummariesScored(
        fold_constants(
            pl.DataFrame(scores, schema=SUMMARY_SCORES, orient="row").with_columns(given)
        ),
        fold_constants(pl.DataFrame(rows, schema=SUMMARY_QUESTIONS, orient="row")),
    )


def _answer_repeatedly(
    judge: Judge, todo: list[tuple[str, list[Question]] | Failure], n_repeats: int
) -> list[Repeats | Failure]:
    """The answers of each repeat; a case fails where one of its repeats does."""
    repeats: list[Repeats | Failure] = [case if isinstance(case, Failure) else [] for case in todo]
    for number in range(n_repeats):
        asked = judge if number == 0 else judge.sampled(str(number))
        outcomes = run_step(partial(answer_questions, asked), todo)
        for index, outcome in enumerate(outcomes):
            before = repeats[index]
            if isinstance(before, Failure):
                continue
            repeats[index] = outcome if isinstance(outcome, Failure) else [*before, outcome]
            if isinstance(outcome, Failure):
                todo[index] = outcome
    return repeats


def _questions_of(case: dict[str, Any], config: Summary) -> list[Question] | Failure:
    """What to ask; an empty list where the answers have no weight."""
    if case["status"] is not None:
        return Failure(case["status"], case["message"])
    if not join_contexts(case["contexts"]).strip():
        return BLANK_CONTEXTS
    if not needs_questions(config):
        return []
    if case["bank_status"] is not None:
        return Failure(case["bank_status"], case["bank_message"])
    return [Question(given["question"], given["key_phrase"]) for given in case["questions"]]


def _score_row(
    case: dict[str, Any], repeats: Repeats | Failure, config: Summary, judge: Judge
) -> dict[str, Any]:
    n_contexts = len(join_contexts(case["contexts"]))
    row = {
        "response_source": case["response_source"],
        "n_characters_response": None if case["response"] is None else len(case["response"]),
        "n_characters_contexts": n_contexts,
        "generator": None if case["response_source"] == "benchmark" else case["response_source"],
        "judge": judge.name,
        "n_characters_cut": case["n_characters_cut"],
    }
    if isinstance(repeats, Failure):
        return row | {"status": repeats.status, "message": repeats.message}

    def combine(answers: list[Answer]) -> SummaryParts:
        return combine_score(
            n_answered=sum(answer.value == "1" for answer in answers),
            n_questions=len(answers),
            n_characters_summary=len(case["response"]),
            n_characters_contexts=n_contexts,
            coeff=config.coeff,
            length_penalty=config.length_penalty,
        )

    # Every repeat asks as many questions, so the score of all answers is the repeats' mean.
    everything = [answer for answers in repeats for answer in answers]
    alone = [combine(answers).summary_score for answers in repeats]
    counts = {
        "n_questions": len(everything),
        "n_answered": sum(answer.value == "1" for answer in everything),
        "n_repeats": len(repeats),
        "spread": max(alone) - min(alone) if len(repeats) > 1 else None,
    }
    return row | {"status": "scored"} | asdict(combine(everything)) | counts


def _question_rows(
    query_id: str, questions: list[Question], repeats: Repeats | Failure
) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for index, question in enumerate(questions):
        given: tuple[str | None, str | None, str | None]
        if isinstance(repeats, Failure):
            given = (None, repeats.message, None)
        else:
            first = repeats[0][index]
            given = (first.value, first.reason, "".join(one[index].value for one in repeats))
        rows.append((query_id, index, question.key_phrase, question.text, *given))
    return rows


def summary_metrics(queries: pl.DataFrame, scores: pl.DataFrame, config: Summary) -> pl.DataFrame:
    """The summary scores as measures: a value for each query, or the reason why there is none.

    Args:
        queries: QUERIES; those without a row in ``scores`` are ``no_judged``.
        scores: SUMMARY_SCORES; every status but ``scored`` is ``failed``.
        config: decides which measures there are.

    Returns:
        ``QUERY_METRICS`` for ``measures_of(config)``, by measure, then query.
    """
    joined = queries.select("query_id").join(
        scores, on="query_id", how="left", maintain_order="left"
    )
    frames = [
        joined.select(
            "query_id",
            measure=pl.lit(name),
            contract_version=pl.lit(Measure.parse(name).contract.version, dtype=pl.Int64),
            value=pl.col(name),
            null_reason=pl.when(pl.col("status").is_null())
            .then(pl.lit("no_judged"))
            .when(pl.col("status") != "scored")
            .then(pl.lit("failed")),
        )
        for name in measures_of(config)
    ]
    return pl.concat(frames).select(QUERY_METRICS.names())


def measures_of(config: Summary) -> tuple[str, ...]:
    """The measures that the section gives; ``qa`` only where it is asked."""
    if needs_questions(config):
        return ("summary_score", "qa", "conciseness")
    return ("summary_score", "conciseness")
