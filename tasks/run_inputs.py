"""One run's rankings, labels and texts, with queries as numbers in bytewise order of their ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from schemas.errors import StageError
from schemas.measures import Measure
from tasks import evidence
from tasks.graded import Floats, Ints, Items, Pool, Ranked, pool_judgements


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What values are computed from; ``query`` columns hold numbers from 0."""

    truth: pl.DataFrame  # TRUTH, one row a query, in order
    ranked: pl.DataFrame  # query, rank, item_id, retrieval_score, by query, then rank
    labelled: pl.DataFrame  # query and LABELS
    answers: pl.DataFrame  # query, answers
    chunks: pl.DataFrame  # CHUNKS
    min_coverage: float | None  # None: evidence is answers, not spans
    level: int
    n_queries: int

    def match(self) -> tuple[Ranked, Pool]:
        """What was found, and what could be, lost ground truth included."""
        judged = self.labelled.filter(pl.col("kind") == "item", pl.col("gain") >= 0)
        hits = self.ranked.select("query", "rank", "item_id").join(
            judged.select("query", "item_id", "gain"),
            on=["query", "item_id"],
            maintain_order="left",
        )
        items = Items(hits["query"].to_numpy(), hits["rank"].to_numpy(), hits["gain"].to_numpy())
        known = self.labelled.filter(pl.col("kind").is_in(["item", "lost"]))
        pool = pool_judgements(
            known["query"].to_numpy(),
            known["gain"].to_numpy(),
            n_queries=self.n_queries,
            level=self.level,
        )
        n_returned = np.bincount(self.ranked["query"].to_numpy(), minlength=self.n_queries)
        n_relevant = self.truth["n_relevant"].to_numpy()
        return Ranked(items, n_returned), Pool(n_relevant, pool.n_nonrelevant, pool.ideal)

    def score_texts(self, measures: Sequence[Measure]) -> Floats:
        """(n_measures, n_queries) values of ``evidence.FAMILIES``."""
        placed = evidence.place_chunks(self.ranked, self.chunks)
        relevant = self.labelled.filter(pl.col("gain") >= self.level)
        if self.min_coverage is not None:
            return evidence.score_spans(
                placed,
                relevant.filter(pl.col("kind") == "span").select("query", "doc_id", "start", "end"),
                measures,
                n_queries=self.n_queries,
                min_coverage=self.min_coverage,
            )
        texts = (
            relevant.filter(pl.col("kind") == "item")
            .select("query", "item_id")
            .join(self.chunks.select("text", item_id="chunk_id"), on="item_id")
            .join(self.answers, on="query")
        )
        return evidence.score_answers(placed, texts, measures, n_queries=self.n_queries)

    def reorder(self, ranked: pl.DataFrame, query_of: Ints) -> RunInputs:
        """Put other rankings in place of these.

        Args:
            ranked: as ``ranked``, its queries numbered anew.
            query_of: for each new number the number that the query had.
        """
        renumbered = pl.DataFrame({"query": query_of}).with_row_index("new")

        def copies(frame: pl.DataFrame) -> pl.DataFrame:
            joined = renumbered.join(frame, on="query", maintain_order="left")
            return joined.drop("query").rename({"new": "query"}).cast({"query": pl.Int64})

        return replace(
            self,
            ranked=ranked,
            labelled=copies(self.labelled),
            answers=copies(self.answers),
            n_queries=len(query_of),
        )


def index_run(
    rankings: pl.DataFrame,
    labels: pl.DataFrame,
    truth: pl.DataFrame,
    chunks: pl.DataFrame,
    queries: pl.DataFrame,
    *,
    min_coverage: float | None,
    level: int,
    depth: int,
) -> RunInputs:
    """Number the queries of truth and check the rankings; for arguments see ``score_rankings``.

    Raises:
        StageError: a ranking holds an item twice, its ranks have gaps, or it ranks a query's
            better score lower.
    """
    ordered = truth.sort("query_id")
    index = ordered.select("query_id").with_row_index("query").cast({"query": pl.Int64})

    def numbered(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.join(index, on="query_id", how="inner", maintain_order="left")

    ranked = numbered(rankings).filter(pl.col("rank") <= depth).sort("query", "rank")
    _check_ranked(ranked)
    return RunInputs(
        truth=ordered,
        ranked=ranked.select("query", "rank", "item_id", "retrieval_score"),
        labelled=numbered(labels),
        answers=numbered(queries).select("query", "answers"),
        chunks=chunks,
        min_coverage=min_coverage,
        level=level,
        n_queries=ordered.height,
    )


def _check_ranked(ranked: pl.DataFrame) -> None:
    twice = ranked.filter(ranked.select("query", "item_id").is_duplicated())
    if twice.height:
        raise StageError(
            f"the ranking of query {twice['query_id'][0]!r} holds {twice['item_id'][0]!r} twice; "
            "an item has one rank"
        )
    score = pl.col("retrieval_score")
    wrong = ranked.filter(
        (pl.col("rank") != pl.int_range(1, pl.len() + 1).over("query"))
        | ~score.is_not_nan()
        | (score > score.shift(1).over("query"))
    )
    if wrong.height:
        raise StageError(
            f"the ranking of query {wrong['query_id'][0]!r} is out of order at rank "
            f"{wrong['rank'][0]} (score {wrong['retrieval_score'][0]}): ranks run from 1 without "
            "a gap, by score descending, and no score is NaN"
        )
