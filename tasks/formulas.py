"""The formula of each family over counts and sums; see the contracts in ``schemas.families``.

Each takes a ``Tally`` and a ``Measure`` and gives ``(n_queries,)`` values, 0 where nothing is
relevant. The order of operations is trec_eval's where it defines the measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from schemas.measures import Measure
from tasks.graded import Floats, Ints, ratio
from tasks.tallying import Tally, cutoff_of

Formula = Callable[[Tally, Measure], Floats]


def _hit(tally: Tally, measure: Measure) -> Floats:
    return np.where(tally.n_hits[tally.at(measure)] > 0, 1.0, 0.0)


def _precision(tally: Tally, measure: Measure) -> Floats:
    precision: Floats = tally.n_hits[tally.at(measure)] / float(cutoff_of(measure))
    return precision


def _precision_returned(tally: Tally, measure: Measure) -> Floats:
    cutoff = cutoff_of(measure)
    return ratio(tally.n_hits[tally.at(measure)], np.minimum(tally.n_returned, cutoff))


def _recall(tally: Tally, measure: Measure) -> Floats:
    return ratio(tally.n_hits[tally.at(measure)], tally.pool.n_relevant)


def _recall_capped(tally: Tally, measure: Measure) -> Floats:
    cutoff = cutoff_of(measure)
    return ratio(tally.n_hits[tally.at(measure)], np.minimum(tally.pool.n_relevant, cutoff))


def _f1(tally: Tally, measure: Measure) -> Floats:
    return _harmonic(_precision(tally, measure), _recall(tally, measure))


def _set_f1(tally: Tally, measure: Measure) -> Floats:
    return _harmonic(_precision_returned(tally, measure), _recall(tally, measure))


def _harmonic(precision: Floats, recall: Floats) -> Floats:
    return ratio(2.0 * precision * recall, recall + precision)


def _rr(tally: Tally, measure: Measure) -> Floats:
    return np.where(tally.first_hit <= cutoff_of(measure), 1.0 / tally.first_hit, 0.0)


def _ap(tally: Tally, measure: Measure) -> Floats:
    return ratio(tally.precision_sums[tally.at(measure)], tally.pool.n_relevant)


def _ap_hits(tally: Tally, measure: Measure) -> Floats:
    return ratio(tally.precision_sums[tally.at(measure)], tally.n_hits[tally.at(measure)])


def _ap_capped(tally: Tally, measure: Measure) -> Floats:
    cutoff = cutoff_of(measure)
    return ratio(tally.precision_sums[tally.at(measure)], np.minimum(tally.pool.n_relevant, cutoff))


def _dcg(tally: Tally, measure: Measure) -> Floats:
    dcg: Floats = tally.dcg[tally.at(measure)]
    return dcg


def _ndcg(tally: Tally, measure: Measure) -> Floats:
    return ratio(tally.dcg[tally.at(measure)], tally.ideal_dcg[tally.at(measure)])


def _ndcg_exp(tally: Tally, measure: Measure) -> Floats:
    found, ideal = tally.exponential_dcg
    return ratio(found[tally.at(measure)], ideal[tally.at(measure)])


def _r_precision(tally: Tally, measure: Measure) -> Floats:
    hits, n_relevant = tally.hits, tally.pool.n_relevant
    within = hits.query[hits.rank <= n_relevant[hits.query]]
    return ratio(np.bincount(within, minlength=tally.n_queries), n_relevant)


def _bpref(tally: Tally, measure: Measure) -> Floats:
    judged, n_relevant = tally.judged, tally.pool.n_relevant
    is_hit = judged.gain >= tally.level
    n_missed = np.cumsum(~is_hit)
    first = np.searchsorted(judged.query, judged.query)  # of the same query
    above = (n_missed - (n_missed - ~is_hit)[first])[is_hit] if len(first) else n_missed
    query = judged.query[is_hit]
    most = n_relevant[query]
    least = np.minimum(tally.pool.n_nonrelevant[query], most)
    terms = 1.0 - ratio(np.minimum(above, most), least)
    total = np.zeros(tally.n_queries)
    np.add.at(total, query, terms)
    return ratio(total, n_relevant)


def _judged(tally: Tally, measure: Measure) -> Floats:
    share: Floats = tally.n_judged[tally.at(measure)] / float(cutoff_of(measure))
    return share


def _rbp(tally: Tally, measure: Measure) -> Floats:
    p = measure.parameter("p")
    weights = np.array([p**power for power in range(int(tally.hits.rank.max(initial=0)))])
    total = np.zeros(tally.n_queries)
    np.add.at(total, tally.hits.query, weights[tally.hits.rank - 1])
    return (1.0 - p) * total


def _err(tally: Tally, measure: Measure) -> Floats:
    items = tally.gained.where(tally.gained.rank <= cutoff_of(measure))
    max_grade = int(measure.parameter("max_grade"))
    grade = np.minimum(items.gain, max_grade).astype(np.int32)
    stops = (np.ldexp(1.0, grade) - 1.0) / 2.0**max_grade
    total, passed = np.zeros(tally.n_queries), np.ones(tally.n_queries)
    for turn in _turns(items.query):
        query, stop = items.query[turn], stops[turn]
        total[query] += stop * passed[query] / items.rank[turn]
        passed[query] *= 1.0 - stop
    return total


def _turns(query: Ints) -> Iterator[Ints]:
    """Indices of the first item of every query, then of the second, and so on."""
    first = np.flatnonzero(np.diff(query, prepend=-1))
    counts = np.diff(first, append=len(query))
    turn = 0
    while len(first):
        yield first + turn
        turn += 1
        is_left = counts > turn
        first, counts = first[is_left], counts[is_left]


FORMULAS: dict[str, Formula] = {
    "hit": _hit,
    "precision": _precision,
    "precision_returned": _precision_returned,
    "recall": _recall,
    "recall_capped": _recall_capped,
    "f1": _f1,
    "rr": _rr,
    "ap": _ap,
    "ap_hits": _ap_hits,
    "ap_capped": _ap_capped,
    "ndcg": _ndcg,
    "ndcg_exp": _ndcg_exp,
    "dcg": _dcg,
    "r_precision": _r_precision,
    "bpref": _bpref,
    "err": _err,
    "rbp": _rbp,
    "judged": _judged,
    "set_precision": _precision_returned,
    "set_recall": _recall,
    "set_f1": _set_f1,
}
