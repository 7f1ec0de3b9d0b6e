"""Where gold spans stand today: verified at their offsets, located anew, or lost.

A span's quote has to stand at its offsets. Where the document has changed, the quote is looked
for character by character, and has to stand there exactly once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import polars as pl

from schemas.records import GoldSpan

Cause = Literal["document_gone", "quote_absent", "quote_ambiguous", "out_of_range"]
Quotes = Mapping[tuple[str, str, int, int], str]
"""By (query_id, doc_id, start, end): the quotes that spans got at their first evaluation."""


@dataclass(frozen=True, slots=True)
class GroundedSpan:
    """A gold span of one query and where it stands; ``cause`` says why it is lost."""

    query_id: str
    span: GoldSpan  # as the benchmark wrote it
    quote: str | None  # its own, else the one of its first evaluation
    start: int | None = None  # where it stands; None: lost
    end: int | None = None
    is_moved: bool = False  # it had offsets and was located anew
    cause: Cause | None = None
    reason: str | None = None  # a sentence for people, when moved or lost

    @property
    def place(self) -> tuple[str, int, int] | None:
        """(doc_id, start, end); None: it is lost."""
        if self.start is None or self.end is None:
            return None
        return (self.span.doc_id, self.start, self.end)

    @property
    def key(self) -> tuple[str, str, int, int] | None:
        """Under which its quote is kept; None: it has no offsets and needs no quote."""
        if self.span.start is None or self.span.end is None:
            return None
        return (self.query_id, self.span.doc_id, self.span.start, self.span.end)


def needed_overlap(shorter: int, min_coverage: float) -> int:
    """The fewest characters that are at least ``min_coverage`` x ``shorter``, exactly.

    The setting is read as the decimal that was written: with floats 0.1 x 30 would be above 3.
    """
    needed = Fraction(repr(min_coverage)) * shorter
    return max(1, -(-needed.numerator // needed.denominator))


def ground_span(
    query_id: str, span: GoldSpan, text: str | None, known_quotes: Quotes
) -> GroundedSpan:
    """Verify one span, or locate it anew.

    Args:
        query_id: whose span it is.
        span: as the benchmark wrote it.
        text: its document; None: the document is not in the corpus.
        known_quotes: for spans that were written without a quote.

    Returns:
        The span with its place; a span in range without any quote gets the text that stands
        there as its quote.
    """
    start, end = span.start, span.end
    has_offsets = start is not None and end is not None
    quote = span.quote or None
    if quote is None and start is not None and end is not None:
        quote = known_quotes.get((query_id, span.doc_id, start, end))
    if text is None:
        reason = "the document is not in the corpus"
        return GroundedSpan(query_id, span, quote, cause="document_gone", reason=reason)
    fault = "it has no offsets"
    if start is not None and end is not None:
        is_in_range = 0 <= start < end <= len(text)
        if is_in_range and quote in (None, text[start:end]):
            return GroundedSpan(query_id, span, text[start:end], start, end)
        fault = (
            f"the quote does not stand at {start}-{end}"
            if is_in_range
            else f"{start}-{end} is out of range, the document has {len(text)} characters"
        )
    if quote is None:
        return GroundedSpan(query_id, span, None, cause="out_of_range", reason=fault)
    return _located(query_id, span, quote, text, fault, is_moved=has_offsets)


def _located(
    query_id: str, span: GoldSpan, quote: str, text: str, fault: str, *, is_moved: bool
) -> GroundedSpan:
    """The span where its quote stands, if exactly once; overlapping occurrences count."""
    at = text.find(quote)
    if at < 0:
        reason = f"{fault}, and the quote is not in the document"
        return GroundedSpan(query_id, span, quote, cause="quote_absent", reason=reason)
    if text.find(quote, at + 1) >= 0:
        reason = f"{fault}, and the quote stands in the document more than once"
        return GroundedSpan(query_id, span, quote, cause="quote_ambiguous", reason=reason)
    end = at + len(quote)
    reason = f"{fault}; located at {at}-{end}"
    return GroundedSpan(
        query_id, span, quote, at, end, is_moved=is_moved, reason=reason if is_moved else None
    )


def ground_spans(
    queries: pl.DataFrame, documents: pl.DataFrame, known_quotes: Quotes
) -> dict[str, list[GroundedSpan]]:
    """Every query's spans, verified or located; queries without the field are absent.

    Args:
        queries: QUERIES.
        documents: DOCUMENTS.
        known_quotes: for spans that were written without a quote.
    """
    given = queries.select("query_id", "spans").drop_nulls("spans")
    named = given.select(pl.col("spans").explode().struct.field("doc_id")).to_series()
    texts = dict(
        documents.filter(pl.col("doc_id").is_in(named.drop_nulls().unique().to_list()))
        .select("doc_id", "text")
        .iter_rows()
    )
    return {
        query_id: [
            ground_span(query_id, GoldSpan(**span), texts.get(span["doc_id"]), known_quotes)
            for span in spans
        ]
        for query_id, spans in given.iter_rows()
    }
