"""Where a text is cut: every method as a function from a text to spans.

Only ``fixed`` and the packing of sentences are our own; structure is semantic-text-splitter's,
sentences are sentencex's. Spans come in order, and together hold all that is not white space.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from schemas.errors import StageError
from schemas.experiment import Chunking
from tasks.fences import fenced_ranges
from tasks.rulers import LONGEST_TOKEN, characters_of, token_starts
from tasks.sentences import split_sentences
from tasks.windows import Span, Split, split_in_windows

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def make_split(config: Chunking, tokenizer: Tokenizer | None) -> Split:
    """The function that cuts texts as the configuration says; made once for many texts.

    Args:
        config: method, unit, size and overlap.
        tokenizer: counts when ``config.unit`` is ``tokens``; special tokens do not count. Its
            truncation and padding are switched off.

    Raises:
        ValueError: the unit is tokens and there is no tokenizer.
    """
    if config.method == "none":
        return lambda text: [(0, len(text))]
    if config.unit == "characters":
        tokenizer = None
    elif tokenizer is None:
        raise ValueError("sizes in tokens need the embedding model's tokenizer")
    else:
        tokenizer.no_truncation()
        tokenizer.no_padding()
    if config.method == "fixed":
        return _fixed(config, tokenizer)
    if config.method == "sentences":
        whole = config.model_copy(update={"overlap": 0})
        cut = _structured(whole, tokenizer, is_markdown=False)
        return split_sentences(config, tokenizer, cut)
    return _structured(config, tokenizer, is_markdown=config.method == "markdown")


def fixed_windows(length: int, size: int, overlap: int) -> Iterator[Span]:
    """Windows that start at 0, size − overlap, …; the last one reaches ``length`` exactly."""
    for start in range(0, max(1, length - overlap), size - overlap):
        yield start, min(start + size, length)


def _fixed(config: Chunking, tokenizer: Tokenizer | None) -> Split:
    """Windows of characters, or of the document's tokens with the white space that follows."""
    size, overlap = config.size, config.overlap
    if tokenizer is None:
        return lambda text: list(fixed_windows(len(text), size, overlap))

    def split(text: str) -> list[Span]:
        starts = [0, *token_starts(text, tokenizer)[1:]]
        edges = [*starts, len(text)]
        windows = fixed_windows(len(starts), size, overlap)
        spans = [(edges[first], edges[last]) for first, last in windows]
        # Several tokens of one character (bytes of an emoji) begin at the same place.
        return list(dict.fromkeys((start, end) for start, end in spans if start < end))

    return split


def _structured(config: Chunking, tokenizer: Tokenizer | None, *, is_markdown: bool) -> Split:
    """By headings and blocks, or blank lines, then lines, sentences, words, characters."""
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

    kind = MarkdownSplitter if is_markdown else TextSplitter
    size, overlap = config.size, config.overlap
    if tokenizer is None:
        splitter = kind(size, overlap)
    else:
        splitter = kind.from_huggingface_tokenizer(tokenizer, size, overlap)
    restart = _outside_code if is_markdown else None

    def split_window(text: str) -> list[Span]:
        spans: list[Span] = []
        for start, chunk in splitter.chunk_indices(text):
            end = start + len(chunk)
            if text[start:end] != chunk:
                raise StageError(
                    f"semantic-text-splitter placed {chunk!r:.60} at {start}, where it does not "
                    "stand; please report the text, and use chunking.method = 'fixed' until then"
                )
            if not spans or end > spans[-1][1]:
                if spans and tokenizer is None:  # the library's overlap leaves out some white space
                    start = max(start, spans[-1][1] - overlap)
                spans.append((start, end))
        return spans

    def split(text: str) -> list[Span]:
        reach = size if tokenizer is None else characters_of(size, text, tokenizer)
        spans = split_in_windows(text, split_window, reach=reach, restart=restart)
        longest = size * (1 if tokenizer is None else LONGEST_TOKEN)
        return [
            (start + first, start + last)
            for start, end in spans
            for first, last in fixed_windows(end - start, longest, 0)
        ]

    return split


def _outside_code(window: str, starts: list[int]) -> int:
    """The last start that is not within fenced code: its closing fence would open another."""
    ranges = list(fenced_ranges(window))
    for index in range(len(starts) - 1, -1, -1):
        if not any(begin < starts[index] < end for begin, end in ranges):
            return index
    return len(starts) - 1
