"""A search of vectors that keeps each query to the chunks that its filter lets through.

Exact where the search is: an exhaustive index compares exactly the vectors that pass. An
approximate one walks its graph or lists as ever and takes only what passes, so a filter that lets
little through costs it recall; where no more pass than candidates are asked for, all are scored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tasks.filtering import Filters
from tasks.searching import Ranked, Search, in_order_of_queries
from tasks.vector_blocks import Ints


@dataclass(frozen=True, slots=True)
class FilteredSearch:
    """A ``Search`` with the filters of its queries, by their row; None: there are none."""

    search: Search
    filters: Filters | None

    def rank(self, queries: Ints) -> tuple[Ranked, int]:
        """Rank the items of (n,) queries; also how many the first search did not settle."""
        filters = self.filters
        if filters is None:
            return self.search.rank(queries)
        none = np.zeros(0, dtype=np.int64)
        parts, n_deepened = [Ranked(none, none, none, np.zeros(0))], 0
        for group, rows in _groups(filters, queries):
            search = self.search if rows is None else _within(self.search, rows)
            if search.index.n_vectors:
                ranked, n = search.rank(group)
                parts.append(ranked)
                n_deepened += n
        return in_order_of_queries(parts), n_deepened

    def most_items(self, n_queries: int) -> Ints:
        """(n_queries,) how many items each query's ranking can hold."""
        most = np.full(n_queries, self.search.items.n_items)
        if self.filters is not None:
            for group, rows in _groups(self.filters, np.arange(n_queries)):
                if rows is not None:
                    most[group] = self.search.items.within(rows).n_items
        capped: Ints = np.minimum(most, self.search.depth)
        return capped


def _groups(filters: Filters, queries: Ints) -> list[tuple[Ints, Ints | None]]:
    """Queries of equal filters together, with the rows that these let through."""
    groups: dict[str | None, list[int]] = {}
    for query in queries.tolist():
        groups.setdefault(filters.of_query[query], []).append(query)
    return [
        (np.array(group, dtype=np.int64), filters.rows_of(group[0])) for group in groups.values()
    ]


def _within(search: Search, rows: Ints) -> Search:
    return replace(search, index=search.index.within(rows), items=search.items.within(rows))
