"""How many characters of retrieved chunks and of gold spans coincide, at every cutoff."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tasks.graded import NO_CUTOFF, Floats, Ints, Mask, ratio


@dataclass(frozen=True, slots=True)
class CharacterCover:
    """Stretches of text between neighbouring ends of chunks and spans; arrays of one length."""

    query: Ints
    length: Ints  # characters
    first_rank: Ints  # of the first chunk that holds the stretch; NO_CUTOFF: none does
    is_gold: Mask
    n_queries: int

    def score(self, family: str, cutoff: int) -> Floats:
        """``span_recall``, ``span_precision`` or ``span_iou`` at a cutoff, for each query."""
        is_held = self.first_rank <= cutoff
        both = self._count(is_held & self.is_gold)
        if family == "span_recall":
            return ratio(both, self._count(self.is_gold))
        if family == "span_precision":
            return ratio(both, self._count(is_held))
        return ratio(both, self._count(is_held | self.is_gold))

    def _count(self, mask: Mask) -> Floats:
        # Whole numbers below 2^53: exact in float64.
        total = np.bincount(self.query[mask], self.length[mask], minlength=self.n_queries)
        return total.astype(np.float64)


def cover_characters(
    placed: pl.DataFrame, spans: pl.DataFrame, *, n_queries: int
) -> CharacterCover:
    """Cut each query's documents where a chunk or span begins or ends.

    Args:
        placed: query (index), rank, doc_id, start, end of the retrieved chunks.
        spans: query (index), doc_id, start, end of the gold spans.
        n_queries: how many queries there are.
    """
    intervals = pl.concat(
        [
            placed.select("query", "doc_id", "start", "end", "rank"),
            spans.select("query", "doc_id", "start", "end", rank=pl.lit(None, dtype=pl.Int64)),
        ]
    ).with_columns(text=pl.struct("query", "doc_id").rank("dense").cast(pl.Int64))
    ends = (
        pl.concat(
            [
                intervals.select("query", "text", at="start"),
                intervals.select("query", "text", at="end"),
            ]
        )
        .unique()
        .sort("text", "at")
        .with_row_index("stretch")
    )
    bounds = ends.select("text", "at", "stretch")
    marked = intervals.join(bounds, left_on=["text", "start"], right_on=["text", "at"]).join(
        bounds, left_on=["text", "end"], right_on=["text", "at"], suffix="_end"
    )
    low = marked["stretch"].to_numpy().astype(np.int64)
    counts = marked["stretch_end"].to_numpy().astype(np.int64) - low
    inside = np.repeat(low - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    rank = np.repeat(marked["rank"].fill_null(NO_CUTOFF).to_numpy(), counts)
    is_span = np.repeat(marked["rank"].is_null().to_numpy(), counts)
    first_rank = np.full(ends.height, NO_CUTOFF)
    np.minimum.at(first_rank, inside, rank)
    is_gold = np.zeros(ends.height, dtype=np.bool_)
    is_gold[inside[is_span]] = True
    # The stretch after the last end of a text is in no interval: its length never counts.
    length = np.diff(ends["at"].to_numpy(), append=0)
    return CharacterCover(ends["query"].to_numpy(), length, first_rank, is_gold, n_queries)
