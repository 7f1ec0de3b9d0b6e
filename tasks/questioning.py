"""The question bank: key phrases and closed questions, made once for different contexts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import polars as pl

from schemas.endpoints import Endpoint
from schemas.errors import StageError
from schemas.experiment import Summary
from schemas.frames import QUESTION_BANK
from tasks.folding import fold_constants
from tasks.gathering import join_contexts
from tasks.judging import Answer, Failure, Judge, Question
from tasks.lexical import LexicalJudge
from tasks.llm_judging import CompleterOf, LLMJudge
from tasks.prompting import load_prompts

BATCH = 1000
"""Items that a judge is given at once: texts and answers as Python objects take much memory."""

Given = TypeVar("Given")
Got = TypeVar("Got")


def make_judge(config: Summary, completer_of: CompleterOf | None = None) -> Judge:
    """The judge that the configuration names.

    Args:
        config: the section.
        completer_of: what asks an endpoint; only an LLM needs it.

    Raises:
        StageError: the judge is an LLM, and there is nothing to ask it with.
    """
    if not isinstance(config.judge, Endpoint):
        return LexicalJudge()
    if completer_of is None:
        raise StageError(f"summary.judge is {config.judge_name}: judge with a desk (desk_of)")
    return LLMJudge(completer_of(config.judge), load_prompts(config.prompts))


def needs_questions(config: Summary) -> bool:
    """Whether the answers have any weight; without, no question is made or asked."""
    return not config.length_penalty or config.coeff < 1


def build_question_bank(
    contexts: pl.DataFrame, config: Summary, judge: Judge | None = None
) -> pl.DataFrame:
    """Key phrases and closed questions of all different contexts.

    Args:
        contexts: SUMMARY_CONTEXTS.
        config: names the judge.
        judge: instead of the one that the configuration names.

    Returns:
        ``QUESTION_BANK``; no rows where ``needs_questions`` is false.
    """
    judge = judge or make_judge(config)
    different = contexts.filter(pl.col("contexts_digest").is_first_distinct())
    if not needs_questions(config):
        different = different.clear()
    parts = [_bank_of(part, judge) for part in different.iter_slices(BATCH)]
    return pl.concat([QUESTION_BANK.to_frame(), *parts])


def _bank_of(different: pl.DataFrame, judge: Judge) -> pl.DataFrame:
    joined = [join_contexts(given) for given in different["contexts"].to_list()]
    texts: list[str | Failure] = [text if text.strip() else BLANK_CONTEXTS for text in joined]
    phrases = [
        outcome or Failure("no_key_phrases", f"{judge.name} found no key phrase in the contexts")
        for outcome in run_step(judge.find_key_phrases, texts)
    ]
    pairs = [
        found if isinstance(found, Failure) else (text, found)
        for text, found in zip(joined, phrases, strict=True)
    ]
    questions = [
        outcome or Failure("no_questions", f"{judge.name} asked no question")
        for outcome in run_step(
            lambda todo: judge.ask_questions([text for text, _ in todo], [key for _, key in todo]),
            pairs,
        )
    ]
    return _bank_frame(different["contexts_digest"], judge.name, questions)


def _bank_frame(
    digests: pl.Series, judge: str, outcomes: list[list[Question] | Failure]
) -> pl.DataFrame:
    """``QUESTION_BANK``; from flat columns, since nested rows take five times the memory."""
    failures = [outcome if isinstance(outcome, Failure) else None for outcome in outcomes]
    heads = pl.DataFrame(
        {
            "contexts_digest": digests,
            "judge": [judge] * len(outcomes),
            "status": [failure and failure.status for failure in failures],
            "message": [failure and failure.message for failure in failures],
        },
        schema_overrides={"judge": pl.String, "status": pl.String, "message": pl.String},
    ).with_row_index("row")
    asked = [
        (row, question)
        for row, outcome in enumerate(outcomes)
        if not isinstance(outcome, Failure)
        for question in outcome
    ]
    flat = pl.DataFrame(
        {
            "row": [row for row, _ in asked],
            "key_phrase": [question.key_phrase for _, question in asked],
            "question": [question.text for _, question in asked],
        },
        schema={"row": pl.UInt32, "key_phrase": pl.String, "question": pl.String},
    )
    grouped = flat.group_by("row", maintain_order=True).agg(
        questions=pl.struct("key_phrase", "question")
    )
    joined = heads.join(grouped, on="row", how="left", maintain_order="left")
    return fold_constants(joined.select(QUESTION_BANK.names()))


BLANK_CONTEXTS = Failure("no_key_phrases", "the contexts are blank")


def run_step(
    step: Callable[[list[Given]], Sequence[Got | Failure]], items: Sequence[Given | Failure]
) -> list[Got | Failure]:
    """Run a step on the items that have not failed yet; the others stay as they are.

    Raises:
        StageError: the step did not give one outcome an item.
    """
    todo = [item for item in items if not isinstance(item, Failure)]
    outcomes = step(todo) if todo else []
    if len(outcomes) != len(todo):
        raise StageError(f"a judge gave {len(outcomes)} outcomes for {len(todo)} items")
    remaining = iter(outcomes)
    return [item if isinstance(item, Failure) else next(remaining) for item in items]


def answer_questions(
    judge: Judge, todo: list[tuple[str, list[Question]]]
) -> list[list[Answer] | Failure]:
    """One "1" or "0" a question; a reply of another shape fails, and is never padded or cut."""
    if not any(questions for _, questions in todo):
        return [[] for _ in todo]
    outcomes = judge.answer_questions([text for text, _ in todo], [asked for _, asked in todo])
    checked: list[list[Answer] | Failure] = []
    for (_, questions), outcome in zip(todo, outcomes, strict=True):
        if isinstance(outcome, Failure):
            checked.append(outcome)
        elif len(outcome) != len(questions):
            message = f"{len(outcome)} answers to {len(questions)} questions"
            checked.append(Failure("invalid_reply", message))
        elif odd := [answer.value for answer in outcome if answer.value not in ("0", "1")]:
            checked.append(Failure("invalid_reply", f'an answer is {odd[0]!r}, not "1" or "0"'))
        else:
            checked.append(outcome)
    return checked
