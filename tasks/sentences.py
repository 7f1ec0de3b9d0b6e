"""Whole sentences, packed into chunks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from schemas.experiment import Chunking
from tasks.rulers import Ruler
from tasks.windows import Span, Split, split_in_windows

if TYPE_CHECKING:
    from tokenizers import Tokenizer

LONG_SENTENCE = 1_024
"""Characters; sets only how wide a window is."""

SENTENCE_WINDOW = 8_192
"""Characters: sentencex takes the square of it for a paragraph of quotes or brackets."""

SENTENCE_LANGUAGE = "en"
"""sentencex's English rules end Chinese sentences too, and keep "M. Dupont" whole, which its
French rules do not."""


def split_sentences(config: Chunking, tokenizer: Tokenizer | None, cut: Split) -> Split:
    """Whole sentences packed to the size; ``cut`` is for a sentence that is longer.

    Neighbours share whole sentences, as many as fit in the overlap.
    """
    size, overlap = config.size, config.overlap

    def split(text: str) -> list[Span]:
        ruler = Ruler(text, tokenizer)
        units: list[Span] = []
        sentences = split_in_windows(
            text, sentence_spans, reach=LONG_SENTENCE, wide=SENTENCE_WINDOW
        )
        for start, end in sentences:
            if ruler.measure(start, end) <= size:
                units.append((start, end))
            else:
                units.extend((start + s, start + e) for s, e in cut(text[start:end]))

        def measure(first: int, last: int) -> int:
            return ruler.measure(units[first][0], units[last - 1][1])

        ranges = pack(len(units), measure, size, overlap)
        return [(units[first][0], units[last - 1][1]) for first, last in ranges]

    return split


def pack(n_units: int, measure: Callable[[int, int], int], size: int, overlap: int) -> list[Span]:
    """Ranges of units: as many as fit in ``size``, of the range before as many as in ``overlap``.

    A range holds at least one unit, and reaches at least one further than the range before.

    Args:
        n_units: how many there are.
        measure: the size of units ``first`` to ``last``, half open.
        size: of a range of more than one unit at most.
        overlap: of the units that two ranges share at most.
    """
    ranges: list[Span] = []
    first = last = 0
    while last < n_units:
        last += 1
        while last < n_units and measure(first, last + 1) <= size:
            last += 1
        ranges.append((first, last))
        shared = last
        while (
            last < n_units
            and shared - 1 > first
            and measure(shared - 1, last) <= overlap
            and measure(shared - 1, last + 1) <= size
        ):
            shared -= 1
        first = shared
    return ranges


def sentence_spans(text: str) -> list[Span]:
    """Sentences without the white space around them."""
    from sentencex import get_sentence_boundaries

    starts = [found["start_index"] for found in get_sentence_boundaries(SENTENCE_LANGUAGE, text)]
    spans: list[Span] = []
    for start, end in pairwise(sorted({0, *starts, len(text)})):
        sentence = text[start:end].rstrip()
        if sentence:
            length = len(sentence.lstrip())
            spans.append((start + len(sentence) - length, start + len(sentence)))
    return spans
