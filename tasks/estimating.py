"""What an evaluation's LLM calls would cost, counting what is stored; nothing is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from schemas.endpoints import Endpoint
from schemas.experiment import Summary
from tasks.calls import Call, CallStore, Usage
from tasks.completing import Completer
from tasks.gathering import gather_contexts, join_contexts
from tasks.judging import Failure
from tasks.pricing import cost_of, estimate_tokens, price_of, today
from tasks.questioning import build_question_bank, make_judge
from tasks.responding import make_generator, summarize_queries
from tasks.summarizing import score_summaries

Got = TypeVar("Got")

PLANNED = Failure("over_budget", "planned")
USUAL_COMPLETION = {"summary": 150, "key_phrases": 150, "questions": 300, "answers": 400}
"""Tokens of a reply, until replies of the model have been seen."""
INSTRUCTIONS = 350  # tokens of instructions and marks, where the message is not known yet
QUESTIONS = 250  # tokens of a text's questions, likewise


class Planner(Completer):
    """Counts the calls that are not stored, and sends none."""

    def __init__(self, endpoint: Endpoint, store: CallStore):
        super().__init__(endpoint, store)
        self.n_planned: Counter[str] = Counter()
        self.n_tokens: Counter[str] = Counter()

    async def _fetch(
        self, call: Call, key: str, read: Callable[[str], Got | Failure]
    ) -> Got | Failure:
        tokens = sum(estimate_tokens(content) for _, content in call.messages)
        self.plan(call.purpose, tokens)
        return PLANNED

    def plan(self, purpose: str, n_tokens: int, n_calls: int = 1) -> None:
        """Count calls of so many prompt tokens each."""
        self.n_planned[purpose] += n_calls
        self.n_tokens[purpose] += n_calls * n_tokens

    def rows(self, summary: Summary, purposes: tuple[str, ...]) -> list[dict[str, Any]]:
        """Calls, tokens and money of each kind of call."""
        price = price_of(self.endpoint.model, summary.prices, today())
        rows = []
        for purpose in purposes:
            mean = self.store.mean_completion_tokens(self.endpoint, purpose)
            n_calls, n_prompt = self.n_planned[purpose], self.n_tokens[purpose]
            n_completion = round(n_calls * (mean or USUAL_COMPLETION[purpose]))
            cost = cost_of(Usage(n_prompt, 0, n_completion), price)
            rows.append(
                {
                    "purpose": purpose,
                    "model": self.endpoint.model,
                    "calls": n_calls,
                    "prompt_tokens": n_prompt,
                    "completion_tokens": n_completion,
                    "cost": cost,
                    "currency": None if price is None else price.currency,
                }
            )
        return rows


def estimate_calls(
    queries: pl.DataFrame,
    rankings: pl.DataFrame,
    chunks: pl.DataFrame,
    summary: Summary,
    items: Path,
) -> list[dict[str, Any]]:
    """The calls that the summary stages would send: a row a purpose; none without an LLM.

    Tokens of prompts are estimated, those of replies are the mean of what the model gave so far.
    Calls whose text depends on an answer that is not there yet count with a usual length.
    """
    store = CallStore(items / "calls")
    planners: dict[str, Planner] = {}

    def planner_of(endpoint: Endpoint) -> Planner:
        role = "generator" if endpoint is summary.generator else "judge"
        return planners.setdefault(role, Planner(endpoint, store))

    try:
        generator = make_generator(summary, planner_of)
        judge = make_judge(summary, planner_of)
        responses = summarize_queries(queries, rankings, chunks, summary, generator)
        contexts = gather_contexts(queries, rankings, chunks, summary)
        bank = build_question_bank(contexts, summary, judge)
        if "judge" in planners:
            _plan_questions(planners["judge"], contexts)
            scored = score_summaries(responses, contexts, bank, summary, judge)
            _plan_answers(planners["judge"], scored.scores, summary)
        rows: list[dict[str, Any]] = []
        if "generator" in planners:
            rows += planners["generator"].rows(summary, ("summary",))
        if "judge" in planners:
            rows += planners["judge"].rows(summary, ("key_phrases", "questions", "answers"))
        return rows
    finally:
        for planner in planners.values():
            planner.close()
        store.close()


def _plan_questions(judge: Planner, contexts: pl.DataFrame) -> None:
    """Contexts without key phrases yet will need questions too."""
    n_calls = judge.n_planned["key_phrases"]
    texts = contexts.unique("contexts_digest", maintain_order=True)["contexts"].to_list()
    mean = sum(estimate_tokens(join_contexts(text)) for text in texts) // max(1, len(texts))
    judge.plan("questions", INSTRUCTIONS + mean + QUESTIONS // 2, n_calls)


def _plan_answers(judge: Planner, scores: pl.DataFrame, summary: Summary) -> None:
    """Every summary that waits for a planned call, and each repeat of it, needs an answer."""
    n_waiting = scores.filter(pl.col("message") == PLANNED.message).height
    n_known = judge.n_planned["answers"]
    lengths = scores["n_characters_response"].drop_nulls()
    mean = int(str(lengths.mean() or summary.max_characters).partition(".")[0]) // 4
    judge.plan("answers", INSTRUCTIONS + mean + QUESTIONS, n_waiting * summary.repeats - n_known)
