"""The rankings of a benchmark: the best items of each query, as a frame, and how long it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl

from schemas.errors import IndexMismatchError, StageError
from schemas.experiment import LabelMethod
from schemas.frames import LATENCIES, RANKINGS
from schemas.indexes import Index
from schemas.retrievers import Retrieval
from tasks.ann_recalls import ann_recalls
from tasks.filtered_searching import FilteredSearch
from tasks.filtering import Filters
from tasks.indexes import OpenIndex, Searchable, open_index
from tasks.latencies import latency_figures
from tasks.memory import give_back
from tasks.ordering import Items
from tasks.ranked_lists import RankedLists
from tasks.rescoring import Rescorer
from tasks.searching import Ranked, Search
from tasks.vector_blocks import FEW_ROWS, Singles, rows_of

LATENCY_QUERIES = 100
LATENCY_LEAST = 20  # more only while they take less than LATENCY_SECONDS together
LATENCY_SECONDS = 0.5


def retrieve(
    index_path: Path,
    query_vectors: Singles,
    chunk_vectors: Singles,
    chunks: pl.DataFrame,
    query_ids: Sequence[str],
    *,
    index: Index,
    retrieval: Retrieval,
    label_method: LabelMethod,
    threads: int | None,
    filters: Filters | None = None,
) -> RankedLists:
    """Retrieve the first ``retrieval.depth`` items of each query.

    Args:
        index_path: the index of ``chunk_vectors``; its digest has been checked.
        query_vectors: (n_queries, dim) as stored.
        chunk_vectors: (n_chunks, dim) as stored; may be mapped.
        chunks: of CHUNKS ``chunk_id`` and ``doc_id``, a row a vector.
        query_ids: an id a query vector.
        index: the experiment's section.
        retrieval: the experiment's section.
        label_method: with ``document`` a ranking is collapsed to documents, best chunk first,
            until ``depth`` documents, the index's end or ``retrieval.chunk_limit`` chunks.
        threads: of FAISS and the rescoring; None: FAISS's own number, and one.
        filters: what each query may retrieve; None: everything.

    Returns:
        Rankings, shorter than ``depth`` where there are no more items. Figures: ``n_queries``,
        ``n_results``, ``n_deepened`` (queries that the first search did not settle),
        ``queries_per_second`` of all at once, and ``latency_p50_ms`` and ``latency_p95_ms`` of
        ``n_latency`` queries one at a time, rescoring included. For an approximate index also
        ``ann_recall@k``; see ``ann_recalls``.

    Raises:
        IndexMismatchError: index, vectors and ids do not belong together.
        StageError: no queries, ids that come twice, or vectors that cannot be compared.
    """
    are_documents = label_method == "document"
    items = Items.of(chunks, are_documents=are_documents)
    opened = open_index(index_path, index, threads=threads)
    _check(opened, query_vectors, chunk_vectors, chunks, query_ids)
    give_back()  # what the ids took, before the index comes in
    whole = Search(
        index=opened,
        rescorer=Rescorer(index.metric, query_vectors, _once(chunk_vectors, opened)),
        items=items,
        depth=retrieval.depth,
        limit=retrieval.chunk_limit if are_documents else retrieval.depth,
        threads=threads or 1,
        least_candidates=index.n_candidates or 1,
        is_rough=index.is_rough,
    )
    found = _search(FilteredSearch(whole, filters), query_ids)
    del whole, opened  # a mapped index is in memory once it was searched; what follows needs some
    item = "doc_id" if are_documents else "chunk_id"
    rankings = _frame(found.ranked, chunks, query_ids, item=item)
    return RankedLists(rankings, found.latencies, found.figures, found.short_queries)


@dataclass(frozen=True, slots=True)
class _Found:
    """What a search gave, without the index."""

    ranked: Ranked
    latencies: pl.DataFrame  # LATENCIES
    figures: dict[str, Any]
    short_queries: list[str]


def _search(search: FilteredSearch, query_ids: Sequence[str]) -> _Found:
    """Search all queries at once, then some of them alone."""
    started = perf_counter()
    ranked, n_deepened = search.rank(np.arange(len(query_ids)))
    seconds = perf_counter() - started
    lengths = np.bincount(ranked.queries, minlength=len(query_ids))
    short = np.flatnonzero(lengths < search.most_items(len(query_ids)))
    latencies = _latencies(search, query_ids)
    is_exhaustive = search.search.index.is_exhaustive
    figures = {
        "n_queries": len(query_ids),
        "n_results": len(ranked.queries),
        "n_deepened": n_deepened,
        "queries_per_second": round(len(query_ids) / seconds, 3),
        **latency_figures(latencies["milliseconds"]),
        **({} if is_exhaustive else ann_recalls(search, len(query_ids))),
    }
    return _Found(ranked, latencies, figures, [query_ids[row] for row in short.tolist()])


def _check(
    index: Searchable,
    query_vectors: Singles,
    chunk_vectors: Singles,
    chunks: pl.DataFrame,
    query_ids: Sequence[str],
) -> None:
    n_chunks, dim = chunk_vectors.shape
    if not index.n_vectors == n_chunks == chunks.height:
        raise IndexMismatchError(
            f"the index holds {index.n_vectors} vectors, but there are {n_chunks} vectors of "
            f"{chunks.height} chunks: they come from different runs. Run the experiment again."
        )
    if not index.dim == dim == query_vectors.shape[1]:
        raise IndexMismatchError(
            f"the index holds {index.dim}-dimensional vectors, but those of the chunks have {dim} "
            f"dimensions and those of the queries {query_vectors.shape[1]}: they were made with "
            "different models. Run the experiment again, or name the model the index was built "
            "with."
        )
    if len(query_ids) != len(query_vectors) or len(query_ids) == 0:
        raise StageError(f"{len(query_ids)} query ids came with {len(query_vectors)} vectors")
    for kind, ids in (("query", pl.Series(query_ids)), ("chunk", chunks["chunk_id"])):
        if len(set(ids)) < len(ids):
            twice = ids.filter(ids.is_duplicated()).unique(maintain_order=True)
            raise StageError(f"{kind} ids come twice: {', '.join(map(repr, twice[:5]))}")


def _once(vectors: Singles, index: OpenIndex) -> Singles:
    """The same vectors, from an index that holds them: then they are in memory once."""
    held = index.stored
    if held is None:
        return vectors
    for start in range(0, len(vectors), FEW_ROWS):
        given = rows_of(vectors, start, size=FEW_ROWS)
        if not np.array_equal(given, held[start : start + FEW_ROWS]):
            return vectors
    return held


def _frame(
    ranked: Ranked, chunks: pl.DataFrame, query_ids: Sequence[str], *, item: str
) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "query_id": pl.Series(query_ids, dtype=pl.String).gather(ranked.queries),
            "rank": ranked.ranks,
            "item_id": chunks[item].gather(ranked.chunks),
            "chunk_id": chunks["chunk_id"].gather(ranked.chunks),
            "retrieval_score": ranked.scores,
        },
        schema=RANKINGS,
    )


def _latencies(search: FilteredSearch, query_ids: Sequence[str]) -> pl.DataFrame:
    """LATENCIES of queries spread evenly over the benchmark, searched one at a time."""
    last = len(query_ids) - 1
    spread = np.unique(np.linspace(0, last, min(LATENCY_QUERIES, last + 1)).round())
    rows = spread.astype(np.int64)
    search.rank(rows[:1])  # warm
    milliseconds: list[float] = []
    for query in rows:
        if len(milliseconds) >= LATENCY_LEAST and sum(milliseconds) > 1000 * LATENCY_SECONDS:
            break
        started = perf_counter()
        search.rank(np.array([query]))
        milliseconds.append(1000 * (perf_counter() - started))
    names = [query_ids[row] for row in rows[: len(milliseconds)]]
    return pl.DataFrame({"query_id": names, "milliseconds": milliseconds}, LATENCIES)
