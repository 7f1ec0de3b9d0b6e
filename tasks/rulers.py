"""Sizes of texts in the tokens of a model, or in characters."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SAMPLE = 4_096
"""Characters at the start of a text that tell how long its tokens are."""

TOKENIZED_AT_ONCE = 65_536
"""Characters: the tokens of a text of many megabytes would not fit in memory."""

LONGEST_TOKEN = 100
"""Characters. WordPiece makes one unknown token of any longer word, be it the whole text."""


class Ruler:
    """Sizes of the spans of one text, in characters or in the tokens of the text as a whole."""

    def __init__(self, text: str, tokenizer: Tokenizer | None):
        self._starts = None if tokenizer is None else token_starts(text, tokenizer)

    def measure(self, start: int, end: int) -> int:
        """Characters from ``start`` to ``end``, or the tokens that begin there."""
        if self._starts is None:
            return end - start
        return bisect_left(self._starts, end) - bisect_left(self._starts, start)


def characters_of(n_tokens: int, text: str, tokenizer: Tokenizer) -> int:
    """About how many characters so many tokens of this text hold, rather more than fewer."""
    sample = text[:SAMPLE]
    return 2 * n_tokens * len(sample) // max(1, len(token_starts(sample, tokenizer))) + 1


def token_starts(text: str, tokenizer: Tokenizer) -> list[int]:
    """Where each token begins: characters, ascending; a very long one counts as several."""
    starts: list[int] = []
    position = 0
    while position < len(text):
        end = position + TOKENIZED_AT_ONCE
        if end < len(text):
            end = max(text.rfind(" ", position, end), text.rfind("\n", position, end))
            end = end if end > position else position + TOKENIZED_AT_ONCE
        encoding = tokenizer.encode(text[position:end], add_special_tokens=False)
        for start, stop in encoding.offsets:
            starts.extend(range(position + start, position + stop, LONGEST_TOKEN))
        position = end
    return starts
