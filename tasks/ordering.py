"""The one order of what is retrieved: score descending, then id descending bytewise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tasks.rescoring import Floats
from tasks.vector_blocks import Ints

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Items:
    """What a ranking ranks: chunks, or with document labels their documents."""

    of_chunk: Ints  # (n_chunks,) number of the item that each chunk stands for
    place_of_chunk: Ints  # (n_chunks,) place of each chunk_id among all, bytewise
    n_items: int
    are_documents: bool

    @classmethod
    def of(cls, chunks: pl.DataFrame, *, are_documents: bool) -> Items:
        """Number the items of chunks so that a greater number is a greater id, bytewise."""
        places = _places(chunks["chunk_id"])
        items = _places(chunks["doc_id"]) if are_documents else places
        return cls(items, places, int(items.max(initial=-1)) + 1, are_documents)

    def within(self, rows: Ints) -> Items:
        """The same items, as if there were only the chunks of these rows."""
        return replace(self, n_items=len(np.unique(self.of_chunk[rows])))


def in_order(scores: Floats, rows: Ints, places: Ints) -> tuple[Floats, Ints]:
    """Sort each row of (n, m) scores and chunks by the one order; row -1 comes last."""
    order = np.argsort(-scores, axis=1)
    by_score = np.take_along_axis(scores, order, axis=1)
    tied = np.flatnonzero((by_score[:, 1:] == by_score[:, :-1]).any(axis=1))
    if tied.size:  # only there do ids decide
        ids = np.where(rows[tied] < 0, -1, places[rows[tied]])
        order[tied] = np.lexsort((-ids, -scores[tied]), axis=1)
        by_score = np.take_along_axis(scores, order, axis=1)
    return by_score, np.take_along_axis(rows, order, axis=1)


def first_of_each(items: Ints) -> Flags:
    """(n, m) whether an item stands in its row for the first time."""
    order = np.argsort(items, axis=1, kind="stable")
    grouped = np.take_along_axis(items, order, axis=1)
    is_first = np.ones(items.shape, dtype=np.bool_)
    is_first[:, 1:] = grouped[:, 1:] != grouped[:, :-1]
    placed = np.empty_like(is_first)
    np.put_along_axis(placed, order, is_first, axis=1)
    return placed


def _places(ids: pl.Series) -> Ints:
    """(n,) from 0, the place of each id among the different ids; Polars compares bytes."""
    return ids.rank("dense").to_numpy().astype(np.int64) - 1


def first_items(
    scores: Floats, rows: Ints, items: Items, *, depth: int, limit: int
) -> tuple[tuple[Floats, Ints], bool]:
    """The first ``depth`` items among all chunks of a query that match, by the one order.

    Args:
        scores: (n,) of chunks.
        rows: (n,) their rows.
        items: what is ranked; documents stand where their best chunk does.
        depth: the most items.
        limit: the most chunks that are looked at.

    Returns:
        Scores and rows (the best chunk of each item), and whether the limit cut the ranking short.
    """
    n_matching = len(rows)
    if n_matching > limit:
        least = np.partition(scores, n_matching - limit)[n_matching - limit]
        scores, rows = scores[scores >= least], rows[scores >= least]
    sorted_scores, sorted_rows = in_order(scores[None, :], rows[None, :], items.place_of_chunk)
    scores, rows = sorted_scores[0, :limit], sorted_rows[0, :limit]
    if items.are_documents:
        is_first = first_of_each(items.of_chunk[rows][None, :])[0]
        best = in_order(scores[is_first][None, :], rows[is_first][None, :], items.of_chunk)
        scores, rows = best[0][0], best[1][0]
    return (scores[:depth], rows[:depth]), n_matching > limit and len(rows) < depth
