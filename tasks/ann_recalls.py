"""What an approximate index loses: the share of the exact first k chunks that it finds.

The exact search goes over the stored vectors, so what is missing was lost by the index, and the
rest by the model. Chunks are counted, whatever is ranked; but where documents are, the index is
asked for more of them, and so it is here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tasks.filtered_searching import FilteredSearch
from tasks.indexes import StoredVectors
from tasks.ordering import Items
from tasks.rescoring import Floats
from tasks.vector_blocks import Ints, sample_rows

CUTOFF = 10  # beside the depth
MOST_PAIRS = 200_000_000  # of a query and a vector, compared exactly; else a sample of the queries
LEAST_QUERIES = 100
SEED = 1234


def ann_recalls(filtered: FilteredSearch, n_queries: int) -> dict[str, float | int]:
    """Search exactly and as configured, each query within its filter, and compare.

    Args:
        filtered: a search of an approximate index.
        n_queries: how many queries there are; beyond ``MOST_PAIRS`` a seeded sample of them counts.

    Returns:
        ``ann_recall@k`` for k = 10 and the depth, in [0, 1], each at most the number of chunks; and
        ``n_ann_queries``, over how many queries it is the mean: those whose filter lets anything
        through.
    """
    search = filtered.search
    n_vectors = search.index.n_vectors
    depth = min(search.depth, n_vectors)
    size = max(LEAST_QUERIES, MOST_PAIRS // n_vectors)
    queries = sample_rows(n_queries, size, seed=SEED)
    places = search.items.place_of_chunk
    chunks = Items(np.arange(n_vectors), places, n_vectors, are_documents=False)
    as_configured = replace(
        search, items=chunks, depth=depth, limit=depth, least_candidates=search.first_count
    )
    stored = StoredVectors(search.rescorer.metric, search.threads, search.rescorer.chunks)
    exactly = replace(as_configured, index=stored, least_candidates=1)
    found, exact = (
        _scores(FilteredSearch(one, filtered.filters), queries) for one in (as_configured, exactly)
    )
    has_any = np.isfinite(exact[:, 0])
    if not has_any.any():
        return {"n_ann_queries": 0}
    return {
        f"ann_recall@{k}": float(recalls_at(k, found[has_any], exact[has_any]).mean())
        for k in sorted({min(CUTOFF, depth), depth})
    } | {"n_ann_queries": int(has_any.sum())}


def recalls_at(k: int, found: Floats, exact: Floats) -> Floats:
    """(n,) the share of the exact first k that was found, a query.

    A tie counts: whatever scores as much as the exact k-th belongs to some exact first k. Where
    there are fewer than k to be found, it is the share of these.

    Args:
        k: at most m.
        found: (n, m) exact scores of different chunks that were found, best first, padded with
            minus infinity.
        exact: (n, m) the best scores there are, best first, padded likewise; at least one each.
    """
    n_exact = np.minimum(np.isfinite(exact).sum(axis=1), k)
    lowest = np.take_along_axis(exact, n_exact[:, None] - 1, axis=1)
    return np.asarray((found[:, :k] >= lowest).sum(axis=1) / n_exact, dtype=np.float64)


def _scores(filtered: FilteredSearch, queries: Ints) -> Floats:
    """(n, depth) the exact scores that each query found, best first, padded with minus infinity."""
    ranked, search = filtered.rank(queries)[0], filtered.search
    rows = np.full((len(queries), search.depth), -1, dtype=np.int64)
    rows[np.searchsorted(queries, ranked.queries), ranked.ranks - 1] = ranked.chunks
    return search.rescorer.scores(queries, rows, threads=search.threads)
