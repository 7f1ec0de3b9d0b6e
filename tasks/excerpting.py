"""The extractive generator: the sentences of the contexts that fit the query, and nothing else."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from tasks.judging import Failure
from tasks.languages import STOP_WORDS, UNSPACED, WORD, language_of
from tasks.matching import normalise


class ExtractiveGenerator:
    """Quotes the best sentences of the contexts within a length.

    A sentence is worth the sum of the rarities of the query's terms in it: log(1 + n / n with the
    term) over the n sentences of the contexts. Terms are words that carry content, and pairs of
    neighbouring characters in scripts without spaces. Ties go to what was retrieved first.

    Args:
        max_characters: the longest summary.
    """

    name = "extractive"

    def __init__(self, *, max_characters: int) -> None:
        self._max_characters = max_characters

    def summarize(
        self, queries: Sequence[str], contexts: Sequence[Sequence[str]]
    ) -> list[str | Failure]:
        """Sentences in the order of the contexts; those without a term only if all are."""
        return [
            self._summarize(query, given) for query, given in zip(queries, contexts, strict=True)
        ]

    def _summarize(self, query: str, contexts: Sequence[str]) -> str | Failure:
        sentences = _different_sentences(contexts)
        if not sentences:
            return Failure("empty_response", "nothing was retrieved that could be summarised")
        worths = _worths(query, sentences)
        best = sorted(range(len(sentences)), key=lambda index: (-worths[index], index))
        chosen: list[int] = []
        length = 0
        for index in best:
            if chosen and not worths[index] and worths[best[0]]:
                break
            # One more for the space that will join it to the others.
            needed = len(sentences[index]) + bool(chosen)
            if length + needed <= self._max_characters:
                chosen.append(index)
                length += needed
        if not chosen:
            return sentences[best[0]][: self._max_characters].rstrip()
        return _join([sentences[index] for index in sorted(chosen)])


def _different_sentences(contexts: Sequence[str]) -> list[str]:
    """The sentences of all contexts, each once: chunks may overlap."""
    from sentencex import segment

    found: dict[str, str] = {}
    for text in contexts:
        for sentence in segment(language_of(text), text):
            form = normalise(sentence)
            if re.search(r"\w", form):
                found.setdefault(form, " ".join(sentence.split()))
    return list(found.values())


def _worths(query: str, sentences: list[str]) -> list[float]:
    terms = _terms(query)
    present = [terms & _terms(sentence) for sentence in sentences]
    n_with = Counter(term for found in present for term in found)
    rarity = {term: math.log(1 + len(sentences) / n) for term, n in n_with.items()}
    return [math.fsum(sorted(rarity[term] for term in found)) for found in present]


def _terms(text: str) -> frozenset[str]:
    normalised = normalise(text)
    words = {word for word in WORD.findall(normalised) if word not in STOP_WORDS}
    figures = set(re.findall(r"\d+", normalised))
    pairs = {
        run[index : index + 2]
        for run in re.findall(f"[{UNSPACED}]+", normalised)
        for index in range(len(run) - 1)
    }
    return frozenset(words | figures | pairs)


def _join(sentences: list[str]) -> str:
    """Joined by a space, but for sentences of scripts that use none."""
    text = sentences[0]
    for sentence in sentences[1:]:
        is_unspaced = re.match(f"[{UNSPACED}《“「（]", sentence) is not None
        text += sentence if is_unspaced else f" {sentence}"
    return text
