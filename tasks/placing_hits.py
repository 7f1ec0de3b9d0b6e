"""Results from elsewhere, found again among our chunks and documents.

A result is matched by its id, by its offsets or by its exact text. Offsets that are no chunk's go
to the chunk that shares most characters with them, at least half of the shorter of the two. What
does not match keeps its rank as an item that is never relevant: to leave it out would raise what
stands below it.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from schemas.errors import StageError
from schemas.hits import Hit
from tasks.graded import Ints
from tasks.hits import HitError, shown_hit

LEAST_SHARED = 0.5  # of the shorter of a result's span and a chunk, as labels have it by default


@dataclass(frozen=True, slots=True)
class Placed:
    """One result in the corpus."""

    item_id: str  # chunk_id, or doc_id with document labels
    chunk_id: str
    score: float
    is_matched: bool = True
    is_shifted: bool = False  # matched by offsets that are no chunk's
    given: str = ""  # of one that is not matched: what it was named by, as JSON


@dataclass(frozen=True, slots=True)
class PlacedHits:
    """The ranking of one query."""

    items: list[Placed]  # in the one order, at most depth
    n_merged: int  # results that fell on an item that had another one
    n_cut: int  # items below depth


class Placer:
    """Finds results among chunks and documents.

    Args:
        chunks: CHUNKS.
        documents: DOCUMENTS.
        are_documents: whether documents are ranked.
        depth: items a query that are kept.
    """

    def __init__(
        self, chunks: pl.DataFrame, documents: pl.DataFrame, *, are_documents: bool, depth: int
    ):
        self._are_documents = are_documents
        self._depth = depth
        self._ids: list[str] = chunks["chunk_id"].to_list()
        self._docs: list[str] = chunks["doc_id"].to_list()
        self._texts: list[str] = chunks["text"].to_list()
        self._starts: Ints = chunks["start"].to_numpy()
        self._ends: Ints = chunks["end"].to_numpy()
        self._row_of = {chunk_id: row for row, chunk_id in enumerate(self._ids)}
        self._text_of = dict(documents.select("doc_id", "text").iter_rows())

    def place(self, hits: Sequence[Hit]) -> PlacedHits:
        """Rank the results of one query.

        Raises:
            HitError: a text comes more often than the corpus holds it.
            StageError: results are documents, and chunks are labelled.
        """
        best: dict[str, Placed] = {}
        n_of_text: dict[str, int] = defaultdict(int)
        for number, hit in enumerate(hits, start=1):
            scored = hit if hit.score is not None else replace(hit, score=1 / number)
            placed = self._place(scored, n_of_text)
            known = best.get(placed.item_id)
            if known is None or placed.score > known.score:
                best[placed.item_id] = placed
        by_id = sorted(best.values(), key=lambda placed: placed.item_id, reverse=True)
        ordered = sorted(by_id, key=lambda placed: -placed.score)  # stable: by id where equal
        n_cut = max(0, len(ordered) - self._depth)
        return PlacedHits(ordered[: self._depth], len(hits) - len(best), n_cut)

    def _place(self, hit: Hit, n_of_text: dict[str, int]) -> Placed:
        row, is_shifted = self._find(hit, n_of_text)
        score = float(hit.score or 0.0)
        if row is not None:
            item = self._docs[row] if self._are_documents else self._ids[row]
            return Placed(item, self._ids[row], score, is_shifted=is_shifted)
        document = hit.doc_id if hit.chunk_id is None else hit.chunk_id
        if self._are_documents and document is not None and document in self._text_of:
            rows = self._rows_of_doc.get(document, [])
            return Placed(document, self._ids[rows[0]] if rows else document, score)
        name = self._name(hit)
        return Placed(name, name, score, is_matched=False, given=_given(hit))

    def _find(self, hit: Hit, n_of_text: dict[str, int]) -> tuple[int | None, bool]:
        """The chunk, and whether offsets had to be shifted; None: there is none."""
        if hit.chunk_id is not None:
            return self._row_of.get(hit.chunk_id), False
        if hit.doc_id is None:
            return self._find_text(str(hit.text), n_of_text), False
        if hit.start is not None and hit.end is not None:
            return self._find_span(hit.doc_id, hit.start, hit.end)
        if hit.text is not None:
            return self._find_text_in(hit.doc_id, hit.text)
        rows = self._rows_of_doc.get(hit.doc_id, [])
        if self._are_documents or len(rows) == 1:
            return (rows[0] if rows else None), False
        if hit.doc_id not in self._text_of:
            return None, False
        raise StageError(
            f"the retriever names results by doc_id alone ({hit.doc_id!r}, which has {len(rows)} "
            "chunks), and chunks are what is labelled. Give chunk_id, start and end, or text with "
            "each result, or set labelling.method = 'document'."
        )

    def _find_span(self, doc_id: str, start: int, end: int) -> tuple[int | None, bool]:
        exact = self._row_of.get(f"{doc_id}#{start}-{end}")
        if exact is not None:
            return exact, False
        rows = np.array(self._rows_of_doc.get(doc_id, []), dtype=np.int64)
        if not rows.size:
            return None, False
        starts, ends = self._starts[rows], self._ends[rows]
        shared = np.minimum(ends, end) - np.maximum(starts, start)
        best = int(np.argmax(shared))  # the first of those that share as much
        shorter = min(int(ends[best] - starts[best]), end - start)
        if shared[best] < LEAST_SHARED * shorter:
            return None, False
        return int(rows[best]), True

    def _find_text(self, text: str, n_of_text: dict[str, int]) -> int | None:
        """Each time that a text comes, the next chunk that has it."""
        rows = self._rows_of_text.get(text, [])
        number = n_of_text[text]
        n_of_text[text] += 1
        if number >= max(1, len(rows)):
            raise HitError(
                f"{shown_hit(Hit(text=text))} comes {number + 1} times, and the corpus holds it "
                f"{len(rows)} times"
            )
        return rows[number] if rows else None

    def _find_text_in(self, doc_id: str, text: str) -> tuple[int | None, bool]:
        """The document's chunk with this text, else where the text stands in it, if once."""
        for row in self._rows_of_doc.get(doc_id, []):
            if self._texts[row] == text:
                return row, False
        whole = self._text_of.get(doc_id, "")
        start = whole.find(text)
        if start < 0 or whole.find(text, start + 1) >= 0:
            return None, False
        return self._find_span(doc_id, start, start + len(text))

    def _name(self, hit: Hit) -> str:
        """Under which a result that does not match stands in the ranking."""
        if hit.chunk_id is not None:
            return hit.chunk_id
        if hit.doc_id is None or (hit.text is not None and not self._are_documents):
            digest = hashlib.sha256(f"{hit.doc_id}\n{hit.text}".encode("utf-8", "replace"))
            return f"text/{digest.hexdigest()[:16]}"
        if self._are_documents or hit.start is None:
            return hit.doc_id
        return f"{hit.doc_id}#{hit.start}-{hit.end}"

    @cached_property
    def _rows_of_doc(self) -> dict[str, list[int]]:
        rows: dict[str, list[int]] = defaultdict(list)
        for row, doc_id in enumerate(self._docs):
            rows[doc_id].append(row)
        return dict(rows)

    @cached_property
    def _rows_of_text(self) -> dict[str, list[int]]:
        rows: dict[str, list[int]] = defaultdict(list)
        for row, text in enumerate(self._texts):
            rows[text].append(row)
        return dict(rows)


def _given(hit: Hit) -> str:
    names = ("chunk_id", "doc_id", "start", "end", "text")
    values = {name: getattr(hit, name) for name in names if getattr(hit, name) is not None}
    if hit.text is not None:
        values["text"] = hit.text[:200]
    return json.dumps(values, ensure_ascii=False)
