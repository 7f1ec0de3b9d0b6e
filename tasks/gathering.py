"""From which contexts a query's summary is judged."""

from __future__ import annotations

import hashlib
from typing import Literal

import polars as pl

from schemas.experiment import Summary
from schemas.frames import SUMMARY_CONTEXTS

Source = Literal["reference", "retrieved"]


def gather_contexts(
    queries: pl.DataFrame, rankings: pl.DataFrame, chunks: pl.DataFrame, config: Summary
) -> pl.DataFrame:
    """The contexts of every query that is judged.

    Args:
        queries: QUERIES.
        rankings: RANKINGS.
        chunks: CHUNKS.
        config: ``contexts`` names the source; None: ``choose_source``.

    Returns:
        ``SUMMARY_CONTEXTS`` in the order of the queries. With ``reference``, a query without
        reference contexts has no row: it is ``no_judged``.
    """
    source = choose_source(queries, config)
    if source == "reference":
        given = queries.select("query_id", contexts="reference_contexts")
        rows = given.filter(pl.col("contexts").list.len() > 0)
    else:
        rows = retrieved_contexts(queries, rankings, chunks, n_contexts=config.n_contexts)
    digests = [digest_contexts(contexts) for contexts in rows["contexts"].to_list()]
    return rows.with_columns(
        source=pl.lit(source), contexts_digest=pl.Series(digests, dtype=pl.String)
    ).select(SUMMARY_CONTEXTS.names())


def choose_source(queries: pl.DataFrame, config: Summary) -> Source:
    """What the configuration names, else ``reference`` when any query has such contexts."""
    if config.contexts is not None:
        return config.contexts
    has_any = (queries["reference_contexts"].list.len() > 0).any()
    return "reference" if has_any else "retrieved"


def retrieved_contexts(
    queries: pl.DataFrame, rankings: pl.DataFrame, chunks: pl.DataFrame, *, n_contexts: int
) -> pl.DataFrame:
    """The texts, without titles, of the first chunks retrieved for each query, best first.

    Returns:
        (query_id, contexts), one row a query; nothing retrieved: an empty list.
    """
    texts = (
        rankings.filter(pl.col("rank") <= n_contexts)
        .join(chunks.select("chunk_id", "text"), on="chunk_id")
        .sort("query_id", "rank")
        .group_by("query_id", maintain_order=True)
        .agg(contexts="text")
    )
    joined = queries.select("query_id").join(
        texts, on="query_id", how="left", maintain_order="left"
    )
    return joined.with_columns(pl.col("contexts").fill_null([]))


def join_contexts(contexts: list[str]) -> str:
    """The one text that a judge reads and whose length conciseness counts."""
    return "\n".join(contexts)


def digest_contexts(contexts: list[str]) -> str:
    """Sha256 of the joined contexts in UTF-8."""
    return hashlib.sha256(join_contexts(contexts).encode()).hexdigest()
