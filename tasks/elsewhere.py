"""Rankings by a retriever from elsewhere: what it answered to every query, as frames."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from schemas.counting import counted
from schemas.errors import StageError
from schemas.frames import FAILED_QUERIES, LATENCIES, RANKINGS, UNMATCHED
from schemas.retrievers import Retrieval
from tasks.latencies import latency_figures
from tasks.placing_hits import PlacedHits

EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The rankings of all queries, and what has to be known about them."""

    rankings: pl.DataFrame  # RANKINGS, in the order of the queries, then by rank
    failed: pl.DataFrame  # FAILED_QUERIES
    unmatched: pl.DataFrame  # UNMATCHED, in the order of the rankings
    latencies: pl.DataFrame  # LATENCIES of the queries that were answered
    figures: dict[str, Any]
    notes: list[str]  # sentences for people


@dataclass
class Answers:
    """Collects the answers to queries, in any order."""

    placed: dict[str, PlacedHits] = field(default_factory=dict)  # by query_id
    failed: dict[str, str] = field(default_factory=dict)  # query_id: reason
    milliseconds: dict[str, float] = field(default_factory=dict)  # by query_id

    def gather(self, query_ids: Sequence[str], figures: Mapping[str, Any]) -> Elsewhere:
        """The frames, in the order of the queries."""
        rows = [
            (query_id, rank, item)
            for query_id in query_ids
            if query_id in self.placed
            for rank, item in enumerate(self.placed[query_id].items, start=1)
        ]
        rankings = pl.DataFrame(
            [(query, rank, i.item_id, i.chunk_id, i.score) for query, rank, i in rows],
            schema=RANKINGS,
            orient="row",
        )
        unmatched = pl.DataFrame(
            [(query, i.item_id, i.given) for query, _, i in rows if not i.is_matched],
            schema=UNMATCHED,
            orient="row",
        )
        failed = [(query, self.failed[query]) for query in query_ids if query in self.failed]
        return Elsewhere(
            rankings,
            pl.DataFrame(failed, schema=FAILED_QUERIES, orient="row"),
            unmatched,
            pl.DataFrame(list(self.milliseconds.items()), schema=LATENCIES, orient="row"),
            {
                "n_queries": len(query_ids),
                "n_results": rankings.height,
                "n_failed": len(failed),
                "n_unmatched": unmatched.height,
                "n_shifted": sum(item.is_shifted for _, _, item in rows),
                "n_merged": sum(placed.n_merged for placed in self.placed.values()),
                "n_cut": sum(placed.n_cut for placed in self.placed.values()),
                **latencies(list(self.milliseconds.values())),
                **figures,
            },
            unmatched_notes(unmatched, rankings.height),
        )


def asked_depth(retrieval: Retrieval, *, are_documents: bool) -> int:
    """How many results a retriever is asked for.

    As many as are ranked; ``max_chunks`` where documents are and it is set, for a retriever that
    gives chunks.
    """
    if are_documents and retrieval.max_chunks is not None:
        return retrieval.max_chunks
    return retrieval.depth


def filters_of(queries: pl.DataFrame) -> dict[str, dict[str, Any]]:
    """The filter of each query that has one, by query_id."""
    given = queries.select("query_id", "filter").drop_nulls()
    return {query_id: json.loads(text) for query_id, text in given.iter_rows()}


def latencies(milliseconds: Sequence[float]) -> dict[str, float | int | None]:
    """Percentiles of the time a query; NULL where none was asked."""
    if not milliseconds:
        return {"latency_p50_ms": None, "latency_p95_ms": None, "n_latency": 0}
    return dict(latency_figures(pl.Series(milliseconds)))


def unmatched_notes(unmatched: pl.DataFrame, n_results: int) -> list[str]:
    """What did not match, in a sentence."""
    if unmatched.is_empty():
        return []
    examples = ", ".join(unmatched["given"].head(EXAMPLES))
    more = ", …" if unmatched.height > EXAMPLES else ""
    of_all = counted(n_results, "result", ("is", "are"))
    return [
        f"{unmatched.height} of {of_all} nowhere in the corpus ({examples}{more}): ranked as "
        "given, and never relevant"
    ]


def refuse_many_failures(answers: Answers, n_queries: int, *, most: float, who: str) -> None:
    """Raise StageError where more than a share of the queries failed."""
    n_failed = len(answers.failed)
    if n_failed and n_failed > most * n_queries:
        query_id, reason = next(iter(answers.failed.items()))
        of_all = counted(n_queries, "query", ("was", "were"))
        raise StageError(
            f"{who}: {n_failed} of {of_all} not answered, more than the share of {most:g} that "
            f"retrieval.http.max_failed allows; query {query_id!r}: {reason}. What "
            "was answered is kept: the next run asks for the rest."
        )
