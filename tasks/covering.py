"""Labels by gold spans: which chunks cover enough of which spans."""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl
from numpy.typing import NDArray

from schemas.experiment import Labelling
from tasks.grounding import GroundedSpan, Quotes, ground_spans, needed_overlap
from tasks.truth import TruthRows

Place = tuple[str, int, int]
"""(doc_id, start, end): spans of a query that stand at one place are one span."""

_NONE = np.empty(0, dtype=np.int64)


class ChunkCover:
    """Finds the chunks that overlap a span enough.

    Args:
        chunks: CHUNKS.
        min_coverage: how much of the shorter of the two has to be in both.
    """

    def __init__(self, chunks: pl.DataFrame, min_coverage: float) -> None:
        self._min_coverage = min_coverage
        self._documents: dict[str, tuple[list[str], NDArray[np.int64], NDArray[np.int64]]] = {
            str(doc_id): (
                group["chunk_id"].to_list(),
                group["start"].to_numpy(),
                group["end"].to_numpy(),
            )
            for (doc_id,), group in chunks.group_by("doc_id", maintain_order=True)
        }
        self._needed: dict[int, int] = {}
        self._found: dict[Place, list[tuple[str, Place]]] = {}

    def find(self, place: Place) -> list[tuple[str, Place]]:
        """Each chunk that covers the place, with its own."""
        if place not in self._found:
            self._found[place] = self._search(*place)
        return self._found[place]

    def _search(self, doc_id: str, start: int, end: int) -> list[tuple[str, Place]]:
        ids, starts, ends = self._documents.get(doc_id, ([], _NONE, _NONE))
        found = []
        for index in np.flatnonzero((starts < end) & (ends > start)).tolist():
            first, last = int(starts[index]), int(ends[index])
            overlap = min(last, end) - max(first, start)
            if overlap >= self._need(min(last - first, end - start)):
                found.append((ids[index], (doc_id, first, last)))
        return found

    def _need(self, shorter: int) -> int:
        if shorter not in self._needed:
            self._needed[shorter] = needed_overlap(shorter, self._min_coverage)
        return self._needed[shorter]


def label_by_spans(
    documents: pl.DataFrame,
    chunks: pl.DataFrame,
    queries: pl.DataFrame,
    config: Labelling,
    known_quotes: Quotes,
) -> tuple[TruthRows, dict[tuple[str, str, int, int], str]]:
    """Label the chunks that cover a gold span, with the grade of the best.

    Returns:
        The rows, and the quotes of spans that had none.
    """
    rows = TruthRows([*chunks["chunk_id"], *documents["doc_id"]])
    cover = ChunkCover(chunks, config.min_coverage)
    new_quotes = {}
    for query_id, spans in ground_spans(queries, documents, known_quotes).items():
        _label_query(rows, query_id, spans, cover, config)
        for grounded in spans:
            key, quote = grounded.key, grounded.quote
            if key and quote and not grounded.span.quote and key not in known_quotes:
                new_quotes[key] = quote
    return rows, new_quotes


def _label_query(
    rows: TruthRows,
    query_id: str,
    spans: list[GroundedSpan],
    cover: ChunkCover,
    config: Labelling,
) -> None:
    located: dict[Place, list[GroundedSpan]] = {}
    unlocated: dict[str, list[GroundedSpan]] = {}
    for grounded in spans:
        if grounded.place is None:
            unlocated.setdefault(_name(grounded), []).append(grounded)
        else:
            located.setdefault(grounded.place, []).append(grounded)
        if grounded.is_moved:
            rows.note_moved(grounded)
    gains: dict[tuple[str, Place], int] = {}
    for place, group in located.items():
        grade = max(grounded.span.grade for grounded in group)
        rows.add_span(query_id, f"{place[0]}#{place[1]}-{place[2]}", grade, place)
        found = cover.find(place)
        for chunk in found:
            gains[chunk] = max(grade, gains.get(chunk, grade))
        if not found and grade >= config.level:
            reason = f"no chunk covers {config.min_coverage} of the shorter of the two"
            rows.add_lost_span(group[0], _name(group[0]), grade, "no_chunk", reason)
    for (chunk_id, chunk_place), gain in gains.items():
        rows.add_item(query_id, chunk_id, gain, chunk_place)
    for name, group in unlocated.items():
        grade = max(grounded.span.grade for grounded in group)
        if grade >= config.level:
            _add_unlocated(rows, group[0], name, grade)


def _add_unlocated(rows: TruthRows, grounded: GroundedSpan, name: str, grade: int) -> None:
    """A lost item, and a gold span of the same length where no chunk can be."""
    length = len(grounded.quote or "")
    if not length and grounded.span.start is not None and grounded.span.end is not None:
        length = grounded.span.end - grounded.span.start
    item_id = rows.add_lost_span(grounded, name, grade, grounded.cause, grounded.reason)
    rows.add_span(grounded.query_id, item_id, grade, (item_id, 0, max(1, length)))


def _name(grounded: GroundedSpan) -> str:
    """The span as the benchmark wrote it, so that it is called the same in every run."""
    span = grounded.span
    if span.start is not None and span.end is not None:
        return f"{span.doc_id}#{span.start}-{span.end}"
    digest = hashlib.sha256((span.quote or "").encode()).hexdigest()
    return f"{span.doc_id}#quote-{digest[:12]}"
