"""Find the judged items among what was retrieved, and their ranks in the one order.

The one order: score descending, ties by a key descending (``trec``: the id, bytewise). Rankings
are rows grouped by query; they are taken as matrices, queries of like length together. Only rows
that hold a judged item are put in order, and only ties that one is part of are resolved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tasks.graded import Floats, Ints, Mask
from tasks.joining import match_ids

BLOCK_CELLS = 1 << 18
"""Cells of one matrix: a few arrays of this size fit the cache."""

_PADDING = -1


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What was returned: rows grouped by query, in any order within a query."""

    ids: Ints  # (n_rows,) 0 or more; equal within a query: the same item
    scores: Floats  # (n_rows,) no NaN
    query: Ints  # (n_groups,) index of the query of each group of rows
    start: Ints  # (n_groups,) its first row
    count: Ints  # (n_groups,) its rows


@dataclass(frozen=True, slots=True)
class Judgements:
    """Judged items, grouped by ascending query index."""

    query: Ints  # (n,)
    ids: Ints  # (n,) as in ``Retrieved``


@dataclass(frozen=True, slots=True)
class Found:
    """Judged items that were retrieved, as rows of both sides."""

    row: Ints  # of ``Retrieved``
    judgement: Ints  # index into ``Judgements``
    rank: Ints  # from 1
    twice: Ints  # rows whose id stands more than once in their query's ranking


def find_judged(
    retrieved: Retrieved, judged: Judgements, *, tie_key: Callable[[Ints], Ints]
) -> Found:
    """Match rows with judgements of their query, and rank what matches.

    Args:
        retrieved: the rankings.
        judged: the judgements.
        tie_key: gives for rows their key; among equal scores the larger key stands first.
    """
    n_queries = 1 + max(judged.query.max(initial=-1), retrieved.query.max(initial=-1))
    n_judged = np.bincount(judged.query, minlength=n_queries)
    first_judged = np.cumsum(n_judged) - n_judged
    parts = []
    for groups in _blocks(retrieved.count):
        block = _Block.of(retrieved, groups)
        query = retrieved.query[groups]
        line, column, judgement = match_ids(
            block.ids, judged.ids, first_judged[query], n_judged[query]
        )
        rank = _rank(block, line, column, tie_key)
        parts.append((block.row(line, column), judgement, rank, block.rows_twice()))
    columns = zip(*parts, strict=True) if parts else ((_NO_ROWS,),) * 4
    row, judgement, rank, twice = (np.concatenate(column) for column in columns)
    return Found(row, judgement, rank, twice)


_NO_ROWS = np.empty(0, dtype=np.int64)


def _blocks(count: Ints) -> Iterator[Ints]:
    """Indices of groups, of like length and few enough that their matrix is a block."""
    order = np.argsort(count, kind="stable")
    order = order[count[order] > 0]
    low = 0
    while low < len(order):
        high = low + max(1, BLOCK_CELLS // int(count[order[low]]))
        # The longest of the block decides its width.
        high = low + max(1, BLOCK_CELLS // int(count[order[min(high, len(order)) - 1]]))
        yield order[low:high]
        low = high


@dataclass(frozen=True, slots=True)
class _Block:
    """Groups of rows as matrices, (n_groups, width), padded on the right."""

    ids: Ints  # padding: -1
    scores: Floats  # padding: NaN
    start: Ints  # (n_groups,)

    @classmethod
    def of(cls, retrieved: Retrieved, groups: Ints) -> _Block:
        start, count = retrieved.start[groups], retrieved.count[groups]
        width = int(count[-1])
        first, last = int(start[0]), int(start[-1]) + width
        if count[0] == width and last - first == len(groups) * width and (np.diff(start) > 0).all():
            shape = (len(groups), width)
            ids = retrieved.ids[first:last].reshape(shape)
            return cls(ids, retrieved.scores[first:last].reshape(shape), start)
        column = np.arange(width)
        is_row = column < count[:, None]
        rows = np.where(is_row, start[:, None] + column, 0)
        ids = np.where(is_row, retrieved.ids[rows], _PADDING)
        return cls(ids, np.where(is_row, retrieved.scores[rows], np.nan), start)

    def row(self, line: Ints, column: Ints) -> Ints:
        return self.start[line] + column

    def rows_twice(self) -> Ints:
        ordered = np.sort(self.ids, axis=1)
        is_equal = ordered[:, 1:] == ordered[:, :-1]
        if not is_equal.any():
            return _NO_ROWS
        is_equal &= ordered[:, 1:] != _PADDING
        if not is_equal.any():
            return _NO_ROWS
        line, column = np.nonzero(is_equal)
        rows = [
            self.start[i] + np.flatnonzero(self.ids[i] == ordered[i, j])
            for i, j in zip(line, column, strict=True)
        ]
        return np.unique(np.concatenate(rows))


def _rank(block: _Block, line: Ints, column: Ints, tie_key: Callable[[Ints], Ints]) -> Ints:
    """Ranks, from 1, of cells of a block."""
    falls_not = block.scores[:, 1:] >= block.scores[:, :-1]
    rank = column + 1
    if not falls_not.any():
        return rank
    needs_order: Mask = np.any(falls_not, axis=1)
    cells = np.flatnonzero(needs_order[line])
    if len(cells):
        lines, inverse = np.unique(line[cells], return_inverse=True)
        rank[cells] = _order(block, lines).rank(inverse, column[cells], tie_key)
    return rank


def _order(block: _Block, lines: Ints) -> _Order:
    """Put lines of a block in the order of their scores; padding goes last."""
    scores = block.scores[lines]
    order = np.argsort(-scores, axis=1)
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(scores.shape[1])[None, :], axis=1)
    return _Order(
        place=place,
        rows=block.start[lines][:, None] + order,
        scores=np.take_along_axis(scores, order, axis=1),
    )


@dataclass(frozen=True, slots=True)
class _Order:
    """Lines in the order of their scores, (n_lines, width), ties as they came."""

    place: Ints  # where each column went
    rows: Ints  # which row stands at each place
    scores: Floats  # descending, NaN last

    def rank(self, line: Ints, column: Ints, tie_key: Callable[[Ints], Ints]) -> Ints:
        """Ranks of cells, the ties that they are part of resolved."""
        width = self.scores.shape[1]
        begins = np.ones(self.scores.shape, dtype=np.bool_)
        begins[:, 1:] = self.scores[:, 1:] != self.scores[:, :-1]
        run = np.cumsum(begins) - 1  # of equal scores, numbered over all lines
        is_tie = np.bincount(run) > 1
        at = line * width + self.place[line, column]
        is_asked = np.zeros(len(is_tie), dtype=np.bool_)
        is_asked[run[at]] = True
        members = np.flatnonzero((is_asked & is_tie)[run])
        if len(members):
            by_key = np.lexsort((-tie_key(self.rows.ravel()[members]), run[members]))
            settled = np.arange(self.scores.size)
            settled[members[by_key]] = members
            at = settled[at]
        rank: Ints = at % width + 1
        return rank
