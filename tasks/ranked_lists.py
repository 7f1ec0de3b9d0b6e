"""Rankings worked out a query at a time, and the frame that they become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from schemas.frames import RANKINGS
from tasks.rescoring import Floats
from tasks.vector_blocks import Ints


@dataclass(frozen=True, slots=True)
class RankedList:
    """The items of one query in the one order, each by the row of its chunk."""

    scores: Floats  # (n,)
    rows: Ints  # (n,)
    seconds: float  # from the query's text to here


@dataclass(frozen=True, slots=True)
class RankedLists:
    """The rankings of all queries."""

    rankings: pl.DataFrame  # RANKINGS: in the order of the queries, then by rank
    latencies: pl.DataFrame  # LATENCIES
    figures: Mapping[str, Any]
    short_queries: list[str] = field(default_factory=list)  # ended at retrieval.max_chunks


def rankings_of(
    lists: Sequence[RankedList], chunks: pl.DataFrame, query_ids: Sequence[str], *, item: str
) -> pl.DataFrame:
    """RANKINGS of a list a query; ``item`` is the column of ``chunks`` that names items."""
    lengths = np.array([len(one.rows) for one in lists], dtype=np.int64)
    rows = np.concatenate([one.rows for one in lists])
    ranks = np.concatenate([np.arange(1, n + 1) for n in lengths])
    return pl.DataFrame(
        {
            "query_id": pl.Series(query_ids, dtype=pl.String).gather(
                np.repeat(np.arange(len(lists)), lengths)
            ),
            "rank": ranks,
            "item_id": chunks[item].gather(rows),
            "chunk_id": chunks["chunk_id"].gather(rows),
            "retrieval_score": np.concatenate([one.scores for one in lists]),
        },
        schema=RANKINGS,
    )
