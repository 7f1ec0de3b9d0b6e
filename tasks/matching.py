"""Does a text contain an answer? The one definition that labels and summary scores share.

Both are normalised (NFKC, case folded, white space collapsed), then the answer is looked for as
a substring. A boundary is asked for only where two letters or digits of one alphabetic script
would meet: ``cat`` is not in ``concatenate`` and ``3.14`` is not in ``13.14``, but ``C++`` is in
``C++11`` and ``北京`` is in ``在北京市``. What a character becomes under NFKC counts, so ``ﬁ`` is
two letters and ``™`` is ``tm``; punctuation is a boundary, so ``14`` is in ``3.14``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import polars as pl

MATCHES = pl.Schema({"text_index": pl.Int64, "answer_index": pl.Int64})

BATCH_CHARACTERS = 4_000_000
"""Texts are searched in batches of this size: the candidates of one batch fit in memory."""

UNSPACED = frozenset(
    "CJK IDEOGRAPHIC HIRAGANA KATAKANA KATAKANA-HIRAGANA HENTAIGANA BOPOMOFO VERTICAL MASU "
    "HANGUL YI TANGUT NUSHU KHITAN THAI LAO KHMER MYANMAR TIBETAN TAI NEW JAVANESE BALINESE".split()
)
"""First words of the Unicode names of scripts that put no space between words (NEW is New Tai Lue).

Hangul does, but its particles cling to the noun: 서울 has to be found in 서울에서.
"""

_ANY = "*"


def normalise(text: str) -> str:
    """NFKC, case folded, white space collapsed to single spaces and stripped; idempotent."""
    if text.isascii():
        folded = text.lower()
    else:
        # Case folding can undo the composition (İ becomes i and a combining dot), hence twice.
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


@lru_cache(maxsize=16_384)
def _script(character: str) -> str:
    """The alphabetic script of a letter or digit; ``""`` when it never asks for a boundary.

    Digits, combining marks and modifier letters belong to whatever script stands beside them.
    """
    category = unicodedata.category(character)
    if category[0] not in "LMN":
        return ""
    name = unicodedata.name(character, "").partition(" ")[0]
    if category == "Nd":
        return _ANY
    if not name or name in UNSPACED:
        return ""
    if category[0] == "N" or name in ("COMBINING", "MODIFIER", "VARIATION"):
        return _ANY
    return name


def _meet(left: str, right: str) -> bool:
    """Whether two neighbours are letters or digits of one alphabetic script."""
    one, other = _script(left), _script(right)
    return bool(one and other) and (one == other or _ANY in (one, other))


def _occurs(text: str, answer: str) -> bool:
    """Whether a normalised, non-empty answer stands in a normalised text, boundaries kept."""
    start = text.find(answer)
    while start >= 0:
        end = start + len(answer)
        cut_before = start > 0 and _meet(text[start - 1], answer[0])
        cut_after = end < len(text) and _meet(answer[-1], text[end])
        if not cut_before and not cut_after:
            return True
        start = text.find(answer, start + 1)
    return False


class AnswerMatcher:
    """The answers of one query, normalised once; an answer without visible text never matches."""

    def __init__(self, answers: Iterable[str]) -> None:
        normalised = dict.fromkeys(normalise(answer) for answer in answers)
        self._answers = tuple(answer for answer in normalised if answer)

    def matches(self, text: str) -> bool:
        """Whether the text, given as it is, contains any of the answers."""
        return bool(self._answers) and self.matches_normalised(normalise(text))

    def matches_normalised(self, text: str) -> bool:
        """The same for a text that ``normalise`` has already seen."""
        return any(_occurs(text, answer) for answer in self._answers)


def contains_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether the text contains any of the answers."""
    return AnswerMatcher(answers).matches(text)


def find_answers(texts: Sequence[str], answers: Sequence[str]) -> pl.DataFrame:
    """Every pair of a text and an answer that it contains.

    An Aho-Corasick search (Polars') finds the candidates of all answers in one pass; only those
    are then held against the boundaries.

    Args:
        texts: as they are; each is normalised once.
        answers: as they are.

    Returns:
        ``MATCHES``: indices into both, sorted by text, then answer.
    """
    by_form: dict[str, list[int]] = {}
    for index, answer in enumerate(answers):
        by_form.setdefault(normalise(answer), []).append(index)
    by_form.pop("", None)
    pairs: list[tuple[int, int]] = []
    for first, batch in _batches(texts) if by_form else ():
        for offset, candidates in enumerate(_candidates(batch, list(by_form))):
            found = (form for form in candidates if _occurs(batch[offset], form))
            indices = sorted(index for form in found for index in by_form[form])
            pairs.extend((first + offset, index) for index in indices)
    return pl.DataFrame(pairs, schema=MATCHES, orient="row")


def _candidates(batch: list[str], forms: list[str]) -> Iterator[list[str]]:
    """For each text the forms that occur in it, boundaries not looked at."""
    found = pl.Series(batch, dtype=pl.String).str.extract_many(forms, overlapping=True)
    yield from found.list.unique().to_list()


def _batches(texts: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Normalised texts in batches, each with the index of its first."""
    first, batch, characters = 0, [], 0
    for index, text in enumerate(texts):
        batch.append(normalise(text))
        characters += len(text)
        if characters >= BATCH_CHARACTERS:
            yield first, batch
            first, batch, characters = index + 1, [], 0
    if batch:
        yield first, batch
