"""The lexical judge: the three steps without a model.

A question asks whether the text mentions a key phrase, and is answered by whether the summary
contains it, as ``tasks.matching`` defines that. It sees words, not meaning: a paraphrase scores
0, and a text that says the opposite in the same words scores 1. Nothing in a summary can talk
it into an answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from tasks.judging import Answer, Failure, Question
from tasks.languages import language_of
from tasks.matching import AnswerMatcher, normalise
from tasks.phrases import find_key_phrases

_QUESTIONS = {
    "en": "Does the text mention “{}”?",
    "fr": "Le texte mentionne-t-il « {} » ?",
    "zh": "文中是否提到“{}”？",
}


class LexicalJudge:
    """Key phrases by pattern and frequency, questions by template, answers by matching."""

    name = "lexical"
    version = "1"

    def sampled(self, sample: str) -> LexicalJudge:
        """Itself: it gives the same answers each time."""
        return self

    def find_key_phrases(self, contexts: Sequence[str]) -> list[list[str] | Failure]:
        """Figures, names and frequent terms of each text; empty when it has no words at all."""
        return [find_key_phrases(text) for text in contexts]

    def ask_questions(
        self, contexts: Sequence[str], key_phrases: Sequence[list[str]]
    ) -> list[list[Question] | Failure]:
        """One question a phrase, in the language of the contexts."""
        outcomes: list[list[Question] | Failure] = []
        for text, phrases in zip(contexts, key_phrases, strict=True):
            template = _QUESTIONS[language_of(text)]
            outcomes.append([Question(template.format(phrase), phrase) for phrase in phrases])
        return outcomes

    def answer_questions(
        self, summaries: Sequence[str], questions: Sequence[list[Question]]
    ) -> list[list[Answer] | Failure]:
        """Whether the summary contains each question's key phrase."""
        return [
            _answer(normalise(summary), asked)
            for summary, asked in zip(summaries, questions, strict=True)
        ]


def _answer(summary: str, questions: list[Question]) -> list[Answer] | Failure:
    answers = []
    for question in questions:
        if question.key_phrase is None:
            message = "the lexical judge answers only questions about a key phrase"
            return Failure("invalid_reply", message)
        contains = AnswerMatcher([question.key_phrase]).matches_normalised(summary)
        verb = "contains" if contains else "does not contain"
        reason = f"the summary {verb} “{question.key_phrase}”"
        answers.append(Answer("1" if contains else "0", reason))
    return answers
