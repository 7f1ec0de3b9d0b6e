"""The one order of what is retrieved: score descending, then id descending bytewise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tasks.rescoring import Floats
from tasks.vector_blocks import Ints

Flags = NDArray[np.bool_]


class Places(Protocol):
    """What decides between equal scores: a greater number is a greater id, bytewise."""

    def __getitem__(self, rows: Ints, /) -> Ints:
        """Of each of the rows."""


@dataclass(frozen=True, slots=True)
class PlacesOfIds:
    """The places of ids among those that are asked for at once.

    Few ids ever decide anything, and all their places take as much memory as the ids.
    """

    ids: pl.Series

    def __getitem__(self, rows: Ints) -> Ints:
        """Of each of the rows."""
        different, inverse = np.unique(rows, return_inverse=True)
        names = self.ids.gather(different).to_list()
        places = np.empty(len(names), dtype=np.int64)
        places[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        return places[inverse]


@dataclass(frozen=True, slots=True)
class Items:
    """What a ranking ranks: chunks, or with document labels their documents."""

    of_chunk: Ints  # (n_chunks,) number of the item that each chunk stands for
    place_of_chunk: Places  # of chunk_ids, by the row of a chunk
    n_items: int
    are_documents: bool

    @classmethod
    def of(cls, chunks: pl.DataFrame, *, are_documents: bool) -> Items:
        """Number the items of chunks; of documents a greater number is a greater id, bytewise."""
        items = _numbers(chunks["doc_id"]) if are_documents else np.arange(chunks.height)
        places = PlacesOfIds(chunks["chunk_id"])
        return cls(items, places, int(items.max(initial=-1)) + 1, are_documents)

    def within(self, rows: Ints) -> Items:
        """The same items, as if there were only the chunks of these rows."""
        return replace(self, n_items=len(np.unique(self.of_chunk[rows])))


def in_order(scores: Floats, rows: Ints, places: Places) -> tuple[Floats, Ints]:
    """Sort each row of (n, m) scores and chunks by the one order; row -1 comes last."""
    order = np.argsort(-scores, axis=1)
    by_score = np.take_along_axis(scores, order, axis=1)
    by_row = np.take_along_axis(rows, order, axis=1)
    is_equal = by_score[:, 1:] == by_score[:, :-1]
    tied = np.flatnonzero(is_equal.any(axis=1))
    if tied.size:  # only there do ids decide
        found = by_row[tied]
        is_tied = np.zeros(found.shape, dtype=np.bool_)
        is_tied[:, 1:] |= is_equal[tied]
        is_tied[:, :-1] |= is_equal[tied]
        is_tied &= found >= 0
        ids = np.full(found.shape, -1)
        ids[is_tied] = places[found[is_tied]]
        order = np.lexsort((-ids, -by_score[tied]), axis=1)
        by_row[tied] = np.take_along_axis(found, order, axis=1)
    return by_score, by_row


def first_of_each(items: Ints) -> Flags:
    """(n, m) whether an item stands in its row for the first time."""
    order = np.argsort(items, axis=1, kind="stable")
    grouped = np.take_along_axis(items, order, axis=1)
    is_first = np.ones(items.shape, dtype=np.bool_)
    is_first[:, 1:] = grouped[:, 1:] != grouped[:, :-1]
    placed = np.empty_like(is_first)
    np.put_along_axis(placed, order, is_first, axis=1)
    return placed


def _numbers(ids: pl.Series) -> Ints:
    """(n,) from 0, the place of each id among the different ids, which are few, bytewise."""
    places = {name: place for place, name in enumerate(sorted(set(ids)))}
    return np.fromiter((places[name] for name in ids), dtype=np.int64, count=len(ids))


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
