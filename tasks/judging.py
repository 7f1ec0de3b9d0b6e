"""What a judge and a generator are: the interface that the lexical and the LLM ones fill.

Every step takes a batch and gives one outcome an item, in order: a judge that calls an endpoint
runs the calls of a batch side by side and stores each answer as it comes. What could not be done
is a ``Failure`` with a status, never an exception and never a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Status = Literal[
    "no_key_phrases",
    "no_questions",
    "empty_response",
    "truncated",
    "refused",
    "timeout",
    "rate_limited",
    "invalid_reply",
    "over_budget",
]
"""Why there is no score; each is ``failed`` in ``query_metrics``."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A step that could not be done for one item."""

    status: Status
    message: str  # a sentence for people


@dataclass(frozen=True, slots=True)
class Question:
    """A closed question whose answer, from the contexts, is yes."""

    text: str
    key_phrase: str | None = None  # what it is about, where the judge knows


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question, from the summary alone."""

    value: str  # "1": yes; "0": no
    reason: str | None = None


class Judge(Protocol):
    """Scores a summary in three steps; ``version`` changes when its outcomes may."""

    @property
    def name(self) -> str:
        """Stands in every row."""
        ...

    @property
    def version(self) -> str:
        """What identifies it beside its name: prompts, model, parameters."""
        ...

    def sampled(self, sample: str) -> Judge:
        """The same judge asked once more; ``sample`` tells its answers from the others."""
        ...

    def find_key_phrases(self, contexts: Sequence[str]) -> list[list[str] | Failure]:
        """The key phrases of each text, in order of first appearance."""
        ...

    def ask_questions(
        self, contexts: Sequence[str], key_phrases: Sequence[list[str]]
    ) -> list[list[Question] | Failure]:
        """Closed questions about each text's key phrases whose answer is yes."""
        ...

    def answer_questions(
        self, summaries: Sequence[str], questions: Sequence[list[Question]]
    ) -> list[list[Answer] | Failure]:
        """One answer a question, from the summary alone."""
        ...


class Generator(Protocol):
    """Writes the summary of what was retrieved for a query."""

    @property
    def name(self) -> str:
        """Stands in every row."""
        ...

    def summarize(
        self, queries: Sequence[str], contexts: Sequence[Sequence[str]]
    ) -> list[str | Failure]:
        """A summary of each query's contexts, best context first."""
        ...
