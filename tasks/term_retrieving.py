"""The BM25 rankings of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np
import polars as pl

from schemas.frames import LATENCIES
from schemas.lexical_retrieval import Bm25
from schemas.retrievers import Retrieval
from tasks.filtering import Filters
from tasks.latencies import latency_figures
from tasks.ordering import Items, first_items
from tasks.ranked_lists import RankedList, RankedLists, rankings_of
from tasks.terms import TermIndex, TermSearch


def retrieve_terms(
    index: TermIndex,
    chunks: pl.DataFrame,
    queries: pl.DataFrame,
    *,
    config: Bm25,
    retrieval: Retrieval,
    ranks_documents: bool,
    filters: Filters | None = None,
) -> RankedLists:
    """Retrieve the first ``retrieval.depth`` items of each query that share a term with it.

    Args:
        index: of ``chunks``, a row a chunk.
        chunks: CHUNKS.
        queries: BENCHMARK.
        config: the section that the index was made with.
        retrieval: depth and chunk limit.
        ranks_documents: a ranking is collapsed to documents, best chunk first, until ``depth``
            documents, the last chunk that matches or ``retrieval.chunk_limit`` chunks.
        filters: what each query may retrieve; None: everything.

    Returns:
        Rankings, shorter than ``depth`` where fewer items match, and the time of each query from
        its text to its ranking.
    """
    items = Items.of(chunks, are_documents=ranks_documents)
    every = items.place_of_chunk[np.arange(chunks.height)]  # ties are the rule here
    items = replace(items, place_of_chunk=every)
    search = TermSearch(index, config)
    limit = retrieval.chunk_limit if ranks_documents else retrieval.depth
    names: Sequence[str] = queries["query_id"].to_list()
    texts: Sequence[str] = queries["text"].to_list()
    search.scores(texts[0])  # the first is slow
    lists: list[RankedList] = []
    short: list[str] = []
    for row, text in enumerate(texts):
        started = perf_counter()
        scores = search.scores(text)
        allowed = None if filters is None else filters.rows_of(row)
        matches = np.flatnonzero(scores > 0) if allowed is None else allowed[scores[allowed] > 0]
        found, is_short = first_items(
            scores[matches], matches, items, depth=retrieval.depth, limit=limit
        )
        lists.append(RankedList(*found, seconds=perf_counter() - started))
        if is_short:
            short.append(names[row])
    rankings = rankings_of(lists, chunks, names, item="doc_id" if ranks_documents else "chunk_id")
    latencies = pl.DataFrame(
        {"query_id": names, "milliseconds": [1000 * one.seconds for one in lists]},
        schema=LATENCIES,
    )
    figures = {
        "n_queries": len(names),
        "n_results": rankings.height,
        "n_unmatched": sum(not len(one.rows) for one in lists),
        **latency_figures(latencies["milliseconds"]),
    }
    return RankedLists(rankings, latencies, figures, short)
