"""Key phrases of a text without a model: numbers and dates, names, terms that carry content."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tasks.languages import CHINESE_STOP_CHARACTERS, CHINESE_STOP_WORDS, UNSPACED
from tasks.matching import AnswerMatcher, normalise
from tasks.spotting import spot_figures, spot_names, spot_titles, spot_words

N_PHRASES = 15
"""Key phrases of one text, at most."""

N_FEW = 5
"""With fewer phrases than this, terms that occur once are taken too."""

N_CHARACTERS = 50_000
"""What lies beyond is not read, so that the work for one text is bounded."""

_LONGEST_PHRASE = 100  # characters
_LONGEST_TERM = 10  # characters of a script without spaces
_LONGEST_STANDING_ALONE = 4


@dataclass(frozen=True, slots=True)
class _Candidate:
    position: int  # of its first appearance
    text: str
    score: int  # weight x occurrences
    is_rare: bool = False  # taken only where there are few others


def find_key_phrases(text: str) -> list[str]:
    """The key phrases of a text, in order of first appearance; each of them stands in it.

    Names weigh 3, figures and titles 2 and terms 1 for each time they occur; the heaviest are
    taken. A phrase that is part of a heavier one is left out.
    """
    candidates = _weigh(text[:N_CHARACTERS])
    common = sorted((c for c in candidates if not c.is_rare), key=lambda c: (-c.score, c.position))
    rare = sorted((c for c in candidates if c.is_rare), key=lambda c: (-len(c.text), c.position))
    chosen = _choose(common, [], N_PHRASES, text)
    if len(chosen) < N_FEW:
        chosen = _choose(rare, chosen, N_FEW, text)
    return [candidate.text for candidate in sorted(chosen, key=lambda c: (c.position, c.text))]


def _choose(
    candidates: list[_Candidate], chosen: list[_Candidate], at_most: int, text: str
) -> list[_Candidate]:
    chosen = list(chosen)
    normalised = normalise(text)
    for candidate in candidates:
        if len(chosen) >= at_most:
            break
        matcher = AnswerMatcher([candidate.text])
        is_part = any(matcher.matches(other.text) for other in chosen)
        if not is_part and matcher.matches_normalised(normalised):
            chosen.append(candidate)
    return chosen


def _weigh(text: str) -> list[_Candidate]:
    """All candidates; a form that is found in several ways keeps its heaviest."""
    found: dict[str, _Candidate] = {}
    for weight, phrases in (
        (3, list(spot_names(text))),
        (2, [*spot_figures(text), *spot_titles(text)]),
        (1, list(spot_words(text))),
    ):
        counts = Counter(normalise(phrase) for _, phrase in phrases)
        for position, phrase in phrases:
            form = normalise(phrase)
            if form and form not in found and len(form) <= _LONGEST_PHRASE:
                is_rare = weight == 1 and counts[form] == 1
                found[form] = _Candidate(position, phrase, weight * counts[form], is_rare)
    for candidate in _unspaced_terms(text):
        found.setdefault(normalise(candidate.text), candidate)
    return list(found.values())


def _unspaced_terms(text: str) -> Iterator[_Candidate]:
    """Strings of characters that recur, each as long as it recurs; where rare, what stands alone.

    Character statistics instead of a dictionary: a string of 2 to 10 characters that occurs at
    least twice, and more often than any longer one that contains it.
    """
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    whole: set[str] = set()
    for run in re.finditer(f"[{UNSPACED}]+", text):
        for piece in re.finditer(f"[^{CHINESE_STOP_CHARACTERS}]+", run[0]):
            term, start = piece[0], run.start() + piece.start()
            for offset in range(len(term) - 1):
                for end in range(offset + 2, min(len(term), offset + _LONGEST_TERM) + 1):
                    counts[term[offset:end]] += 1
                    first.setdefault(term[offset:end], start + offset)
            if len(term) > 1:
                whole.add(term[:_LONGEST_STANDING_ALONE])
    part = {
        inner
        for term, n in counts.items()
        if n > 1 and len(term) > 2
        for inner in (term[1:], term[:-1])
        if counts[inner] == n
    }
    for term, n in counts.items():
        if term in CHINESE_STOP_WORDS:
            continue
        if n > 1 and term not in part:
            yield _Candidate(first[term], term, n)
        elif n == 1 and term in whole:
            yield _Candidate(first[term], term, 1, is_rare=True)
