"""Score summaries from Python: one, one from inside an event loop, or many with a progress bar."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from schemas.experiment import Summary
from schemas.frames import SUMMARY_CONTEXTS, SUMMARY_RESPONSES
from schemas.home import find_home
from tasks.engaging import check_endpoints, desk_of
from tasks.gathering import digest_contexts
from tasks.judging import Judge
from tasks.progress import progress_writer
from tasks.questioning import build_question_bank, make_judge
from tasks.summarizing import SummariesScored, score_summaries


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question of the bank with the answer that the summary gives."""

    key_phrase: str | None
    question: str
    answer: str | None  # "1" or "0", of the first repeat; None: not answered
    reason: str | None


@dataclass(frozen=True, slots=True)
class ScoredSummary:
    """A summary's score with its parts and the reasoning behind it."""

    status: str  # scored, or why there is no score
    message: str | None  # a sentence; None when scored
    summary_score: float | None
    qa: float | None
    conciseness: float | None
    spread: float | None  # between repeats; None: asked once
    questions: tuple[AskedQuestion, ...]


def score_summary(
    response: str,
    contexts: Sequence[str],
    *,
    config: Summary | None = None,
    judge: Judge | None = None,
    items: Path | None = None,
) -> ScoredSummary:
    """Score one summary by its contexts.

    Args:
        response: the summary.
        contexts: what it summarises.
        config: names the judge and the weights; by default the lexical judge.
        judge: instead of the one that the configuration names.
        items: where answered calls are kept; by default the home's.

    Raises:
        ConfigurationError: the judge's endpoint cannot be used.
    """
    return score_many([(response, contexts)], config=config, judge=judge, items=items)[0]


async def score_summary_async(
    response: str,
    contexts: Sequence[str],
    *,
    config: Summary | None = None,
    judge: Judge | None = None,
    items: Path | None = None,
) -> ScoredSummary:
    """``score_summary`` without holding up the event loop that it is awaited on."""
    return await asyncio.to_thread(
        score_summary, response, contexts, config=config, judge=judge, items=items
    )


def score_many(
    summaries: Sequence[tuple[str, Sequence[str]]],
    *,
    config: Summary | None = None,
    judge: Judge | None = None,
    items: Path | None = None,
    shows_progress: bool = False,
) -> list[ScoredSummary]:
    """Score (response, contexts) pairs, in order; calls run side by side.

    See ``score_summary``; ``shows_progress`` draws a bar on stderr.
    """
    config = config or Summary()
    responses, contexts = _frames(summaries)
    if judge is not None:
        bank = build_question_bank(contexts, config, judge)
        return _unpack(score_summaries(responses, contexts, bank, config, judge))
    folder = items or find_home().items
    if config.endpoints:
        judge_only = config.model_copy(update={"generator": "extractive"})
        check_endpoints(judge_only, folder)
    with desk_of(config, folder, say=progress_writer(shows_progress)) as desk:
        judge = make_judge(config, desk.completer)
        bank = build_question_bank(contexts, config, judge)
        return _unpack(score_summaries(responses, contexts, bank, config, judge))


def _frames(summaries: Sequence[tuple[str, Sequence[str]]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    responses, contexts = [], []
    for number, (response, given) in enumerate(summaries):
        query_id, is_blank = str(number), not response.strip()
        status = "empty_response" if is_blank else None
        message = "the response is blank" if is_blank else None
        responses.append((query_id, response, "benchmark", status, message, None))
        texts = list(given)
        contexts.append((query_id, "reference", texts, digest_contexts(texts)))
    return (
        pl.DataFrame(responses, schema=SUMMARY_RESPONSES, orient="row"),
        pl.DataFrame(contexts, schema=SUMMARY_CONTEXTS, orient="row"),
    )


def _unpack(scored: SummariesScored) -> list[ScoredSummary]:
    asked: dict[str, list[AskedQuestion]] = {}
    for row in scored.questions.iter_rows(named=True):
        question = AskedQuestion(row["key_phrase"], row["question"], row["answer"], row["reason"])
        asked.setdefault(row["query_id"], []).append(question)
    names = ("status", "message", "summary_score", "qa", "conciseness", "spread")
    return [
        ScoredSummary(
            **{name: row[name] for name in names}, questions=tuple(asked.get(row["query_id"], ()))
        )
        for row in scored.scores.iter_rows(named=True)
    ]
