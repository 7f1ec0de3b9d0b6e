"""Ranking measures over arrays, equal bit for bit to a loop that adds in rank order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.errors import StageError
from schemas.measures import Measure, MeasureError
from tasks.finding import Judgements, Retrieved, find_judged
from tasks.formulas import FORMULAS
from tasks.graded import (
    Floats,
    Ints,
    Pool,
    Ranked,
    pool_judgements,
    positive_items,
    sort_items,
)
from tasks.tallying import Tally

BLOCK_CELLS = 1 << 19
"""A matrix of gains is read in blocks of about this many cells, which stay in the cache."""

NEEDS_JUDGED = frozenset({"bpref", "judged"})


def score(ranked: Ranked, pool: Pool, measures: Sequence[Measure], *, level: int = 1) -> Floats:
    """Compute measures from the judged items that were found.

    Args:
        ranked: what was found.
        pool: what could be found.
        measures: of ``tasks.formulas.FORMULAS``; those over texts are in ``tasks.evidence``.
        level: from this grade on an item is relevant.

    Returns:
        (n_measures, n_queries) values, each within its contract; 0 where nothing is relevant,
        but for what lesser grades give to ``ndcg`` and ``judged``, as in trec_eval.
    """
    tally = Tally(ranked, pool, level, measures)
    values = np.empty((len(measures), len(pool.n_relevant)))
    for row, measure in zip(values, measures, strict=True):
        row[:] = FORMULAS[measure.family](tally, measure)
        if measure.contract.highest is not None:
            # A sum of rounded quotients can come out one bit above what it is divided by.
            np.minimum(row, measure.contract.highest, out=row)
    return values


def score_gains(
    gains: NDArray[np.integer],
    n_relevant: Ints,
    ideal: NDArray[np.integer],
    measures: Sequence[Measure],
    *,
    level: int = 1,
    n_returned: Ints | None = None,
) -> Floats:
    """Compute measures from a matrix of gains.

    Args:
        gains: (n_queries, depth) grade at each rank, best first; 0 or less where unjudged, not
            relevant or not returned.
        n_relevant: (n_queries,) R, how many relevant items could be found.
        ideal: (n_queries, n_judged) grades of all judged items, descending, padded with 0.
        measures: see ``score``.
        level: from this grade on an item is relevant.
        n_returned: (n_queries,) items returned; default: ``depth`` for every query.

    Returns:
        (n_measures, n_queries) values; see ``score``.

    Raises:
        MeasureError: ``bpref`` or ``judged``: gains do not say what was judged with grade 0.
    """
    for measure in measures:
        if measure.family in NEEDS_JUDGED:
            raise MeasureError(f"measure {measure}: gains do not say which items were judged")
    n_queries, depth = gains.shape
    if n_returned is None:
        n_returned = np.full(n_queries, depth)
    values = np.empty((len(measures), n_queries))
    step = max(1, BLOCK_CELLS // max(1, depth, ideal.shape[1]))
    for low in range(0, n_queries, step):
        part = slice(low, low + step)
        relevant = n_relevant[part]
        pool = Pool(relevant, np.zeros_like(relevant), positive_items(ideal[part]))
        ranked = Ranked(positive_items(gains[part]), n_returned[part])
        values[:, part] = score(ranked, pool, measures, level=level)
    return values


def score_ids(
    ids: NDArray[np.integer],
    scores: Floats,
    judged: Judgements,
    gain: Ints,
    measures: Sequence[Measure],
    *,
    level: int = 1,
) -> Floats:
    """Compute measures from retrieved ids, as an index returns them, and judgements.

    Args:
        ids: (n_queries, depth) numbered so that a greater id is greater bytewise: among equal
            scores it stands first; below 0: nothing returned.
        scores: (n_queries, depth) retrieval scores, in any order.
        judged: the judged ids, grouped by query; each once a query.
        gain: (n,) grade of each; below 0: unjudged.
        measures: see ``score``.
        level: from this grade on an item is relevant.

    Returns:
        (n_measures, n_queries) values; see ``score``.

    Raises:
        StageError: a score is NaN, or a query has an id twice.
    """
    count = np.full(len(ids), ids.shape[1])
    rows, row_scores = ids.ravel(), scores.ravel()
    if ids.size and ids.min() < 0:
        is_returned = ids >= 0
        count = np.count_nonzero(is_returned, axis=1)
        rows, row_scores = ids[is_returned], scores[is_returned]
    if np.isnan(row_scores.min(initial=0.0)):
        raise StageError("a retrieval score is NaN, which has no place in an order")
    start = np.cumsum(count) - count
    retrieved = Retrieved(
        rows.astype(np.int64, copy=False), row_scores, np.arange(len(ids)), start, count
    )
    found = find_judged(retrieved, judged, tie_key=lambda at: retrieved.ids[at])
    if len(found.twice):
        query = int(np.searchsorted(start, found.twice[0], side="right")) - 1
        raise StageError(f"query {query} has id {rows[found.twice[0]]} twice in its ranking")
    items = sort_items(judged.query[found.judgement], found.rank, gain[found.judgement])
    items = items.where(items.gain >= 0)
    pool = pool_judgements(judged.query, gain, n_queries=len(ids), level=level)
    return score(Ranked(items, count), pool, measures, level=level)
