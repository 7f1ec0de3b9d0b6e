"""The generator and the judge of one stage, with all that an LLM needs around it.

The built-in ones need nothing. For an endpoint: the store of calls, the run's budget, a log, and
connections that are closed when the stage ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from schemas.endpoints import Endpoint
from schemas.experiment import Summary
from schemas.frames import LLM_CALLS
from tasks.call_logs import CallLog
from tasks.calls import CallStore
from tasks.completing import Completer
from tasks.lexical import LexicalJudge
from tasks.llm_judging import judge_version
from tasks.pricing import Ledger, Spent
from tasks.probing import probe
from tasks.prompting import load_prompts

Say = Callable[[str], None]


@dataclass
class Desk:
    """What one stage asks LLMs with, and what it spent; of built-ins it stays empty.

    Args:
        summary: the section.
        items: the folder of the item stores; None: nothing is stored.
        spent: what the run has spent before this stage.
        say: is told how far a batch is.
    """

    summary: Summary
    items: Path
    spent: Spent
    say: Say | None = None

    def __post_init__(self) -> None:
        self.store = CallStore(self.items / "calls")
        self.ledger = Ledger(self.summary.budget, self.summary.prices, self.spent)
        self.log = CallLog(self.summary.prices)
        self._open = ExitStack()
        self._open.callback(self.store.close)

    def figures(self) -> dict[str, Any]:
        """Calls, tokens and money of this stage; empty where no LLM was needed."""
        log, ledger = self.log, self.ledger
        if not self.summary.endpoints:
            return {}
        return {
            "n_calls": log.n_asked,
            "n_reused": log.n_reused,
            "n_failed_calls": log.n_failed,
            "spent_calls": ledger.spent.calls - self.spent.calls,
            "spent_tokens": ledger.spent.tokens - self.spent.tokens,
            "spent_money": ledger.spent.money - self.spent.money,
        }

    def calls(self, queries: Mapping[str, str]) -> pl.DataFrame:
        """``LLM_CALLS``; ``queries`` names the query of a call's subject."""
        return self.log.frame(queries) if self.summary.endpoints else LLM_CALLS.to_frame()

    def completer(self, endpoint: Endpoint) -> Completer:
        """What asks an endpoint's model; closed with the desk."""
        completer = Completer(
            endpoint,
            self.store,
            ledger=self.ledger,
            log=self.log,
            deadline=self.summary.deadline,
            say=self.say,
            prompt_version=load_prompts(self.summary.prompts).name,
        )
        return self._open.enter_context(completer)

    def close(self) -> None:
        """Close connections and the store."""
        self._open.close()


@contextmanager
def desk_of(
    summary: Summary, items: Path, *, spent: Spent | None = None, say: Say | None = None
) -> Iterator[Desk]:
    """A desk that is closed when its stage ends."""
    desk = Desk(summary, items, spent or Spent(), say)
    try:
        yield desk
    finally:
        desk.close()


def check_endpoints(summary: Summary, items: Path) -> None:
    """Refuse endpoints that cannot work, before anything is spent; see ``tasks.probing``.

    Raises:
        ConfigurationError: no key, no such server or model, or not OpenAI-compatible.
    """
    from tasks.posting import key_of

    for section, endpoint in summary.endpoints.items():
        key_of(endpoint, f"summary.{section}")
    with desk_of(summary, items) as desk:
        for section, endpoint in summary.endpoints.items():
            completer = desk.completer(endpoint)
            completer.run_one(probe(completer, section))


def settings_of_generator(summary: Summary) -> dict[str, Any]:
    """What of the section decides contexts and responses: the key of their stage."""
    settings: dict[str, Any] = {
        "generator": summary.generator,
        "contexts": summary.contexts,
        "n_contexts": summary.n_contexts,
        "max_characters": summary.max_characters,
    }
    if isinstance(summary.generator, Endpoint):
        settings |= {
            "generator": summary.generator.identity,
            "max_context_tokens": summary.max_context_tokens,
            "prompts": load_prompts(summary.prompts).digest,
        }
    return settings


def settings_of_judge(summary: Summary) -> dict[str, Any]:
    """What of the section decides the question bank."""
    from tasks.questioning import needs_questions

    return {
        "judge": summary.judge if isinstance(summary.judge, str) else "endpoint",
        "version": version_of_judge(summary),
        "needs_questions": needs_questions(summary),
    }


def settings_of_scores(summary: Summary) -> dict[str, Any]:
    """What of the section decides the scores."""
    return settings_of_judge(summary) | {
        "coeff": summary.coeff,
        "length_penalty": summary.length_penalty,
        "repeats": summary.repeats,
    }


def version_of_judge(summary: Summary) -> str:
    """What identifies the judge: prompts, endpoint, model, parameters."""
    if isinstance(summary.judge, Endpoint):
        return judge_version(summary.judge, load_prompts(summary.prompts))
    return LexicalJudge.version
