"""Judgements of a qrels file, grouped by query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tasks.finding import Judgements
from tasks.graded import Ints, Pool, pool_judgements
from tasks.trec_bytes import show_id
from tasks.trec_files import TrecLines

_ODD = np.int64(0x1E3779B97F4A7C15)  # spreads query numbers over 64 bits


@dataclass(frozen=True, slots=True)
class Qrels:
    """Judgements, grouped by query; queries in bytewise order of their ids."""

    lines: TrecLines
    query_ids: list[bytes]
    judged: Judgements
    row: Ints  # line of ``lines`` of each judgement
    gain: Ints  # grade of each judgement
    pool: Pool


def prepare_qrels(lines: TrecLines, *, level: int) -> Qrels:
    """Group judgements by query.

    Args:
        lines: of the qrels file.
        level: from this grade on a document is relevant.

    Raises:
        InputError: a document is judged twice for one query.
    """
    query_ids = sorted(lines.query_ids)
    place = {query_id: index for index, query_id in enumerate(query_ids)}
    place_of = np.array([place[query_id] for query_id in lines.query_ids])
    query = place_of[lines.query]
    row = np.argsort(query, kind="stable")
    query, ids = query[row], hash_docs(lines.docs)[row]
    refuse_twice(lines, row[_equal_pairs(query, ids)], "judged")
    gain = lines.numbers[row]
    pool = pool_judgements(query, gain, n_queries=len(query_ids), level=level)
    return Qrels(lines, query_ids, Judgements(query, ids), row, gain, pool)


def place_queries(run: TrecLines, qrels: Qrels) -> NDArray[np.int32]:
    """For each of the run's queries its number in the qrels, or -1."""
    place = {query_id: index for index, query_id in enumerate(qrels.query_ids)}
    return np.array([place.get(query_id, -1) for query_id in run.query_ids], dtype=np.int32)


def hash_docs(docs: pl.Series) -> Ints:
    """Hash documents to 63 bits; equal ids have equal hashes, and matches are compared again."""
    ids: Ints = (docs.hash().to_numpy() >> np.uint64(1)).view(np.int64)
    return ids


def _equal_pairs(query: Ints, ids: Ints) -> Ints:
    """Where a query may have an id more than once: nothing that is equal is left out."""
    mixed = ids ^ (query * _ODD)
    ordered = np.sort(mixed)
    return np.flatnonzero(np.isin(mixed, ordered[1:][ordered[1:] == ordered[:-1]]))


def refuse_twice(lines: TrecLines, rows: Ints, done: str) -> None:
    """Raise InputError when a document stands twice for a query among the rows."""
    if not len(rows):
        return
    rows = np.sort(rows)
    pairs = pl.DataFrame({"query": lines.query[rows], "doc": lines.docs.gather(rows)})
    is_first = pairs.select(pl.struct("query", "doc").is_first_distinct()).to_series()
    repeated = rows[~is_first.to_numpy()]
    if not len(repeated):
        return
    row = int(repeated[0])
    pair = (int(lines.query[row]), lines.docs[row])
    first = next(int(at) for at in rows if (int(lines.query[at]), lines.docs[int(at)]) == pair)
    lines.refuse(
        row,
        f"document {show_id(pair[1])!r} is {done} twice for query "
        f"{show_id(lines.query_ids[pair[0]])!r}, first on line {lines.line_of(first)}",
    )
