"""The LLM generator: a summary of the retrieved contexts, by a model behind an endpoint."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tasks.calls import Call, subject_of
from tasks.completing import Completer
from tasks.judging import Failure
from tasks.pricing import estimate_tokens
from tasks.prompting import Prompts, number_lines
from tasks.replies import without_reasoning


class LLMGenerator:
    """Writes summaries by asking a model.

    Args:
        completer: asks it.
        prompts: in one language.
        max_characters: the longest summary that is asked for.
    """

    def __init__(self, completer: Completer, prompts: Prompts, *, max_characters: int):
        self._completer = completer
        self._prompts = prompts
        self._max_characters = max_characters
        self.name = completer.endpoint.model

    def summarize(
        self, queries: Sequence[str], contexts: Sequence[Sequence[str]]
    ) -> list[str | Failure]:
        """A summary of each query's contexts; none where nothing was retrieved."""
        pairs = list(zip(queries, contexts, strict=True))
        return self._completer.run(self._write, pairs, purpose="summaries")

    async def _write(self, pair: tuple[str, Sequence[str]]) -> str | Failure:
        query, contexts = pair
        if not any(text.strip() for text in contexts):
            return Failure("empty_response", "nothing was retrieved that could be summarised")
        data = [("query", query), ("contexts", number_lines(contexts))]
        messages = self._prompts.messages("summary", data, max_characters=self._max_characters)
        call = Call("summary", messages, None, subject_of([query]))
        return await self._completer.ask(call, self._read)

    def _read(self, reply: str) -> str | Failure:
        text = without_reasoning(reply)
        return text or Failure("empty_response", f"{self.name} wrote nothing")


def fit_contexts(contexts: Sequence[str], max_tokens: int) -> tuple[list[str], int]:
    """The contexts, best first, as far as they fit a budget of estimated tokens.

    The one that crosses it is cut at white space where there is some.

    Returns:
        What fits, and how many characters were left out.
    """
    kept: list[str] = []
    left = max_tokens
    for text in contexts:
        needed = estimate_tokens(text)
        if needed > left:
            head = _cut(text, left)
            if head:
                kept.append(head)
            break
        kept.append(text)
        left -= needed
    return kept, sum(map(len, contexts)) - sum(map(len, kept))


def _cut(text: str, max_tokens: int) -> str:
    """The longest beginning of at most so many estimated tokens."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(text[:middle]) <= max_tokens:
            low = middle
        else:
            high = middle - 1
    head = text[:low]
    if low < len(text) and (space := re.search(r"\s\S*\Z", head)) and space.start() > low // 2:
        head = head[: space.start()]
    return head.rstrip()
