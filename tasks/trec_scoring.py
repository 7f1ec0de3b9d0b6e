"""Score the lines of a run against the lines of qrels, as trec_eval does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from schemas.errors import InputError
from schemas.measures import Measure
from tasks.finding import Found, Retrieved, find_judged
from tasks.graded import Floats, Ints, Items, Mask, Ranked, positions, sort_items
from tasks.ranking import score
from tasks.trec_bytes import show_id
from tasks.trec_files import TrecLines
from tasks.trec_qrels import Qrels, hash_docs, place_queries, refuse_twice


@dataclass(frozen=True, slots=True)
class TrecOptions:
    """How files are scored; the defaults are trec_eval 10's."""

    level: int = 1  # from this grade on a document is relevant
    judged_only: bool = False  # unjudged documents are taken out of the rankings first
    score_dtype: Literal["float64", "float32"] = "float64"  # float32: trec_eval 9, pytrec_eval
    ties: Literal["trec", "input"] = "trec"  # by document id, descending; in the order of the file


@dataclass(frozen=True, slots=True)
class RunScores:
    """The values of one run; arrays are by the queries of the qrels."""

    values: Floats  # (n_measures, n_queries)
    is_missing: Mask  # (n_queries,) the run has no line for the query
    n_ignored: int  # queries of the run that are not in the qrels
    ranked: Ranked
    line_at: Ints  # the lines of the ranked items, in no order


def score_run(
    run: TrecLines, qrels: Qrels, measures: Sequence[Measure], options: TrecOptions
) -> RunScores:
    """Compute every measure for every query of the qrels; 0 where the run has no line.

    Raises:
        InputError: a document stands twice in one ranking, or no query of the run is judged.
    """
    known = place_queries(run, qrels)
    if (known < 0).all():
        raise InputError(
            f"none of its queries ({_some(run.query_ids)}) is in {qrels.lines.source} "
            f"({_some(qrels.query_ids)}); the order of the files is QRELS RUN",
            path=run.source,
        )
    n_queries = len(qrels.query_ids)
    retrieved, line_at = _retrieve(run, known[run.query], n_queries, options)

    def lines(rows: Ints) -> Ints:
        return rows if line_at is None else line_at[rows]

    found = find_judged(
        retrieved, qrels.judged, tie_key=lambda rows: _tie_key(run, lines(rows), options)
    )
    refuse_twice(run, lines(found.twice), "ranked")
    counts = np.zeros(n_queries, dtype=np.int64)
    counts[retrieved.query] = retrieved.count
    items, line_of_item = _judged_items(run, lines(found.row), qrels, found)
    ranked = Ranked(items, counts)
    if options.judged_only:
        ranked = _without_unjudged(ranked, n_queries)
    return RunScores(
        values=score(ranked, qrels.pool, measures, level=options.level),
        is_missing=counts == 0,
        n_ignored=int((known < 0).sum()),
        ranked=ranked,
        line_at=line_of_item,
    )


def scores_of(run: TrecLines, options: TrecOptions) -> Floats:
    """(n_lines,) scores as they are compared."""
    scores: Floats = run.numbers
    if options.score_dtype == "float32":
        with np.errstate(over="ignore"):  # beyond float32 a score is infinite, as in trec_eval 9
            scores = scores.astype(np.float32).astype(np.float64)
    return scores


def _retrieve(
    run: TrecLines, query: NDArray[np.int32], n_queries: int, options: TrecOptions
) -> tuple[Retrieved, Ints | None]:
    """Group the lines of judged queries.

    Returns:
        The rankings, and the line of each row; None: rows are the lines.
    """
    ids, scores = hash_docs(run.docs), scores_of(run, options)
    line_at = None
    is_judged = query >= 0
    is_asked = np.zeros(n_queries, dtype=np.bool_)
    is_asked[query[is_judged]] = True
    if not is_judged.all():
        line_at = np.flatnonzero(is_judged)
        query = query[line_at]
    starts = _starts(query)
    if len(starts) > is_asked.sum():  # the lines of a query are scattered
        order = pl.Series(query).arg_sort().to_numpy()
        line_at = order if line_at is None else line_at[order]
        query = query[order]
        starts = _starts(query)
    if line_at is not None:
        ids, scores = ids[line_at], scores[line_at]
    count = np.diff(starts, append=len(query))
    return Retrieved(ids, scores, query[starts].astype(np.int64), starts, count), line_at


def _starts(query: NDArray[np.int32]) -> Ints:
    """Where the query is another than in the row before."""
    return np.flatnonzero(np.concatenate([[True], query[1:] != query[:-1]]))


def _tie_key(run: TrecLines, lines: Ints, options: TrecOptions) -> Ints:
    """The larger stands first among equal scores."""
    if options.ties == "input":
        return -lines
    key = np.empty(len(lines), dtype=np.int64)
    key[run.docs.gather(lines).arg_sort().to_numpy()] = np.arange(len(lines))
    return key


def _judged_items(run: TrecLines, line_at: Ints, qrels: Qrels, found: Found) -> tuple[Items, Ints]:
    """What was found, but for grades below 0 and for hashes that met by chance; and its lines."""
    gain = qrels.gain[found.judgement]
    docs = run.docs.gather(line_at)
    is_same = docs == qrels.lines.docs.gather(qrels.row[found.judgement])
    is_kept = is_same.to_numpy() & (gain >= 0)
    query = qrels.judged.query[found.judgement][is_kept]
    return sort_items(query, found.rank[is_kept], gain[is_kept]), line_at[is_kept]


def _without_unjudged(ranked: Ranked, n_queries: int) -> Ranked:
    items = ranked.items
    renumbered = Items(items.query, positions(items.query, n_queries), items.gain)
    return Ranked(renumbered, np.bincount(items.query, minlength=n_queries))


def _some(query_ids: list[bytes]) -> str:
    shown = ", ".join(show_id(query_id) for query_id in query_ids[:3])
    return f"{shown}, …" if len(query_ids) > 3 else shown
