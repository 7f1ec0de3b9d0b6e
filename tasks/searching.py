"""The first items of each query: FAISS proposes, float64 scores decide, ties are followed.

A search of an exhaustive index is settled when what FAISS left out cannot belong to the ranking:
its last score, plus the most that it can be off, lies below the last score that counts. Until then
more is asked for, so neither a tie at the end of a ranking nor the error of a float32 score is left
to chance. What an approximate index left out is not known: its search is settled when there are
enough items, and ties are ordered among what was found. It is asked for no more than counts where
its own scores are good, since a graph takes longer for each; compressed ones need some to spare.
Its scores are worked out in float64 where that can change the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tasks.indexes import Searchable
from tasks.ordering import Flags, Items, first_of_each, in_order
from tasks.rescoring import Floats, Rescorer
from tasks.vector_blocks import Ints, Singles

QUERIES_AT_ONCE = 4_096  # FAISS's own block
PAIRS_AT_ONCE = 2_000_000  # bounds the memory of candidates
LEAST_SPARE = 16  # candidates beyond what is needed, at least
DEEPER = 4  # times as many candidates, each round
ROUNDS_FOR_TIES = 2  # after these everything above the last score is asked for


@dataclass(frozen=True, slots=True)
class Ranked:
    """Rankings laid end to end: one entry an item."""

    queries: Ints  # (n,) row of the query
    ranks: Ints  # (n,) from 1
    chunks: Ints  # (n,) row of the chunk
    scores: Floats  # (n,)


@dataclass(frozen=True, slots=True)
class Search:
    """An index with everything that turns its candidates into rankings.

    Args:
        index: proposes chunks.
        rescorer: scores them.
        items: what is ranked.
        depth: the most items of a ranking.
        limit: the most chunks that are looked at for one ranking, in the one order.
        threads: of the rescoring.
        least_candidates: how many chunks are scored for a query, if there are so many.
        is_rough: whether an approximate index's own scores leave out what would count.
    """

    index: Searchable
    rescorer: Rescorer
    items: Items
    depth: int
    limit: int
    threads: int
    least_candidates: int = 1
    is_rough: bool = True

    def rank(self, queries: Ints) -> tuple[Ranked, int]:
        """Rank the items of (n,) queries; also how many the first search did not settle."""
        parts: list[Ranked] = []
        n_deepened = 0
        pending = queries
        for turn, count in enumerate(self._counts()):
            unsettled = []
            for block in _blocks(pending, count):
                scores, rows, is_settled = self._candidates(block, count)
                parts.append(self._cut(block[is_settled], scores[is_settled], rows[is_settled]))
                unsettled.append(block[~is_settled])
            pending = np.concatenate(unsettled)
            n_deepened += len(pending) if turn == 0 else 0
            if not pending.size:
                break
        parts.extend(self._rank_all_above(query) for query in pending)
        return in_order_of_queries(parts), n_deepened

    @property
    def first_count(self) -> int:
        """How many chunks the first round asks for."""
        return self._counts()[0]

    def _counts(self) -> list[int]:
        """How many chunks each round asks for."""
        first = min(self.limit, 2 * self.depth if self.items.are_documents else self.depth)
        is_exhaustive = self.index.is_exhaustive
        needs_spare = is_exhaustive or self.is_rough
        first, last = (_with_spare(n) if needs_spare else n for n in (first, self.limit))
        counts = [max(first, self.least_candidates)]
        while counts[-1] < self.limit:
            counts.append(min(DEEPER * counts[-1], last))
        if is_exhaustive:
            counts.extend(counts[-1] * DEEPER**turn for turn in range(1, ROUNDS_FOR_TIES + 1))
        n = self.index.n_vectors
        return sorted({min(count, n) for count in counts})

    def _candidates(self, queries: Ints, count: int) -> tuple[Floats, Ints, Flags]:
        """(n, count) scores and chunks in the one order, and whether they settle the ranking."""
        proposed, rows = self.index.nearest(self.rescorer.queries[queries], count)
        scores, rows = in_order(*self._scored(queries, proposed, rows), self.items.place_of_chunk)
        if count >= self.index.n_vectors:
            return scores, rows, np.ones(len(queries), dtype=np.bool_)
        if not self.index.is_exhaustive:
            return scores, rows, self._has_enough(rows)
        reach = proposed[:, -1].astype(np.float64) + self.rescorer.slack(queries)
        n_certain = np.minimum((scores > reach[:, None]).sum(axis=1), self.limit)
        n_found = n_certain
        if self.items.are_documents:
            found = first_of_each(self.items.of_chunk[rows]).cumsum(axis=1)
            last = np.maximum(n_certain - 1, 0)
            n_found = np.where(n_certain > 0, found[np.arange(len(found)), last], 0)
        enough = min(self.depth, self.items.n_items)
        return scores, rows, (n_certain >= self.limit) | (n_found >= enough)

    def _scored(self, queries: Ints, proposed: Singles, rows: Ints) -> tuple[Floats, Ints]:
        """(n, count) scores that give the one order, and their chunks."""
        if self.index.is_exhaustive:
            return self.rescorer.scores(queries, rows, threads=self.threads), rows
        if self.index.is_precise:
            return self.rescorer.settled(queries, rows, proposed.astype(np.float64)), rows
        scores = self.rescorer.roughly(queries, rows, threads=self.threads)
        order = np.argsort(-scores, axis=1)
        rows = np.take_along_axis(rows, order, axis=1)
        scores = np.take_along_axis(scores, order, axis=1)
        return self.rescorer.settled(queries, rows, scores), rows

    def _has_enough(self, rows: Ints) -> Flags:
        """(n,) whether an approximate search has to go no deeper for (n, count) chunks in order.

        Fewer came back than were asked for (row -1): there are no more to be had.
        """
        has_ended = rows[:, -1] < 0
        if not self.items.are_documents or rows.shape[1] >= self.limit:
            return np.ones(len(rows), dtype=np.bool_)
        n_found = (first_of_each(self.items.of_chunk[rows]) & (rows >= 0)).sum(axis=1)
        return np.asarray(has_ended | (n_found >= min(self.depth, self.items.n_items)))

    def _rank_all_above(self, query: int) -> Ranked:
        """Rank every chunk that may score as much as the last one within the limit."""
        one = np.array([query])
        scores, _, _ = self._candidates(one, _with_spare(self.limit))
        bound = float(scores[0, self.limit - 1] - 2 * self.rescorer.slack(one)[0])
        rows = self.index.above(self.rescorer.queries[query], bound)[None, :]
        scores = self.rescorer.scores(one, rows)
        return self._cut(one, *in_order(scores, rows, self.items.place_of_chunk))

    def _cut(self, queries: Ints, scores: Floats, rows: Ints) -> Ranked:
        """The first ``depth`` items of chunks in the one order."""
        counts = (rows >= 0) & (np.arange(rows.shape[1]) < self.limit)
        if self.items.are_documents:
            counts &= first_of_each(self.items.of_chunk[rows])
            scores = np.where(counts, scores, -np.inf)
            scores, rows = in_order(scores, np.where(counts, rows, -1), self.items.of_chunk)
            counts = rows >= 0
        at, places = np.nonzero(counts[:, : self.depth])
        return Ranked(queries[at], places + 1, rows[at, places], scores[at, places])


def _with_spare(count: int) -> int:
    return count + max(LEAST_SPARE, count // 8)


def _blocks(queries: Ints, count: int) -> Iterator[Ints]:
    size = max(1, min(QUERIES_AT_ONCE, PAIRS_AT_ONCE // count))
    for start in range(0, len(queries), size):
        yield queries[start : start + size]


def in_order_of_queries(parts: Sequence[Ranked]) -> Ranked:
    """Join rankings that were worked out in several parts."""
    queries = np.concatenate([part.queries for part in parts])
    order = np.argsort(queries, kind="stable")
    return Ranked(
        queries[order],
        np.concatenate([part.ranks for part in parts])[order],
        np.concatenate([part.chunks for part in parts])[order],
        np.concatenate([part.scores for part in parts])[order],
    )
