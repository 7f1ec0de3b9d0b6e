"""The LLM judge: key phrases, closed questions and answers by a model behind an endpoint.

Questions and answers are matched by index, and only what is missing is asked again; a reply that
was cut, with more room or in two halves. Whatever a summary says, it is data to the model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from schemas.endpoints import Endpoint
from schemas.experiment import digest_of
from tasks.calls import Call, subject_of
from tasks.completing import Completer
from tasks.judging import Answer, Failure, Question
from tasks.prompting import Prompts, number_lines, schema_of
from tasks.replies import (
    InvalidReplyError,
    is_empty_list,
    read_answer,
    read_entries,
    read_text,
    read_texts,
)

MOST_PHRASES = 20
Entries = dict[int, dict[str, Any]]
CompleterOf = Callable[[Endpoint], Completer]


class LLMJudge:
    """Scores summaries by asking a model.

    Args:
        completer: asks it.
        prompts: in one language.
        sample: "0", the number of the repeat, or anchor/<logical_date>: answers only.
    """

    def __init__(self, completer: Completer, prompts: Prompts, sample: str = "0"):
        self._completer = completer
        self._prompts = prompts
        self._sample = sample
        self.name = completer.endpoint.model
        self.version = judge_version(completer.endpoint, prompts)

    def sampled(self, sample: str) -> LLMJudge:
        """The same judge asked once more."""
        return LLMJudge(self._completer, self._prompts, sample)

    def find_key_phrases(self, contexts: Sequence[str]) -> list[list[str] | Failure]:
        """The key phrases of each text, at most ``MOST_PHRASES``, as the model gives them."""
        return self._completer.run(self._find, contexts, purpose="key phrases")

    def ask_questions(
        self, contexts: Sequence[str], key_phrases: Sequence[list[str]]
    ) -> list[list[Question] | Failure]:
        """A question a key phrase; one that the model leaves out twice has none."""
        pairs = list(zip(contexts, key_phrases, strict=True))
        return self._completer.run(self._ask, pairs, purpose="questions")

    def answer_questions(
        self, summaries: Sequence[str], questions: Sequence[list[Question]]
    ) -> list[list[Answer] | Failure]:
        """An answer to every question of a summary, or a failure."""
        pairs = list(zip(summaries, questions, strict=True))
        return self._completer.run(self._answer, pairs, purpose="answers")

    async def _find(self, text: str) -> list[str] | Failure:
        schema = schema_of("key_phrases", fewest=0, most=MOST_PHRASES)
        call = self._call(schema, [("text", text)], subject_of([text]), max_phrases=MOST_PHRASES)

        def read(reply: str) -> list[str] | Failure:
            phrases = read_texts(reply, "key_phrases")[:MOST_PHRASES]
            message = f"{self.name} found no key phrase in the contexts"
            return phrases or Failure("no_key_phrases", message)

        return await self._completer.ask(call, read)

    async def _ask(self, pair: tuple[str, list[str]]) -> list[Question] | Failure:
        text, phrases = pair
        subject = subject_of([text])

        async def ask(indexes: list[int], *, is_first: bool) -> Entries | Failure:
            chosen = number_lines([phrases[index] for index in indexes])
            schema = schema_of("questions", fewest=len(indexes), most=len(indexes))
            call = self._call(schema, [("text", text), ("key_phrases", chosen)], subject)

            def read(reply: str) -> Entries | Failure:
                entries = read_entries(reply, "questions", len(indexes))
                found = {
                    index: {"question": question}
                    for index, entry in entries.items()
                    if (question := read_text(entry, "question", "value"))
                }
                if is_first and not found and is_empty_list(reply, "questions"):
                    return Failure("no_questions", f"{self.name} asked no question")
                return _useful(found, may_be_empty=not is_first)

            return await self._completer.ask(call, read)

        found = await _collect(ask, len(phrases))
        if isinstance(found, Failure):
            return found
        return [
            Question(found[index]["question"], phrase)
            for index, phrase in enumerate(phrases)
            if index in found
        ]

    async def _answer(self, pair: tuple[str, list[Question]]) -> list[Answer] | Failure:
        summary, questions = pair
        subject = subject_of([summary])

        async def ask(indexes: list[int], *, is_first: bool) -> Entries | Failure:
            chosen = number_lines([questions[index].text for index in indexes])
            data = [("summary", summary), ("questions", chosen)]
            schema = schema_of("answers", fewest=len(indexes), most=len(indexes))
            call = self._call(schema, data, subject, sample=self._sample)
            return await self._completer.ask(
                call,
                lambda reply: _useful(
                    {
                        index: {"answer": answer, "reason": read_text(entry, "reason")}
                        for index, entry in read_entries(reply, "answers", len(indexes)).items()
                        if (answer := read_answer(entry.get("answer", entry.get("value"))))
                    }
                ),
            )

        found = await _collect(ask, len(questions))
        if isinstance(found, Failure):
            return found
        return [
            Answer(found[index]["answer"], found[index]["reason"])
            for index in range(len(questions))
        ]

    def _call(
        self,
        schema: dict[str, Any],
        data: Sequence[tuple[str, str]],
        subject: str,
        *,
        sample: str = "0",
        **values: int,
    ) -> Call:
        (purpose,) = schema["properties"]
        messages = self._prompts.messages(purpose, data, **values)
        return Call(purpose, messages, schema, subject, sample)


def judge_version(endpoint: Endpoint, prompts: Prompts) -> str:
    """What identifies an LLM judge: endpoint, model, parameters, prompts."""
    return digest_of(endpoint.identity | {"prompts": prompts.digest})


async def _collect(
    ask: Callable[..., Awaitable[Entries | Failure]], n_items: int
) -> Entries | Failure:
    """Ask for all, then for what is missing, until a round fails or adds nothing."""
    found: Entries = {}
    missing = list(range(n_items))
    while missing:
        entries = await _ask_or_halve(ask, missing, is_first=len(missing) == n_items)
        if isinstance(entries, Failure):
            return entries
        if not entries:
            break
        found |= entries
        missing = [index for index in missing if index not in entries]
    return found


async def _ask_or_halve(
    ask: Callable[..., Awaitable[Entries | Failure]], indexes: list[int], *, is_first: bool
) -> Entries | Failure:
    """The entries by their own index; a reply that was cut in any room is asked in two halves."""
    entries = await ask(indexes, is_first=is_first)
    if not isinstance(entries, Failure):
        return {indexes[position]: entry for position, entry in entries.items()}
    if entries.status != "truncated" or len(indexes) == 1:
        return entries
    middle = len(indexes) // 2
    found: Entries = {}
    for half in (indexes[:middle], indexes[middle:]):
        part = await _ask_or_halve(ask, half, is_first=is_first)
        if isinstance(part, Failure):
            return part
        found |= part
    return found


def _useful(entries: Entries, *, may_be_empty: bool = False) -> Entries:
    if not entries and not may_be_empty:
        raise InvalidReplyError("the reply holds no entry with an index that was asked for")
    return entries
